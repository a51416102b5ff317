-- What keeps all items of a queue from being claimed: whether it is paused, as in lib/paused.lua; of the
-- pause: since and until (ms, or ""), by whom and why; how many items the limits let start now (or ""),
-- behind it the name of each rate and how many that lets start; when a rate lets the next one start if none
-- does (ms, or ""); the limits as config has them. `held`: items in progress.
local PAUSE_BYTES = 1600
local function held_back(q, held)
  local config = redis.call('HMGET', q.config, 'paused', 'paused_until', 'suspended', 'paused_at',
    'paused_by', 'paused_reason', 'limits')
  local function text_of(field) return string.sub(config[field] or '', 1, PAUSE_BYTES) end
  local startable, next_start = '', ''
  if config[7] and config[7] ~= '' then
    local rates, most, room, at = read_limits(q, config[7], 1e9)
    room = math.min(room, most and math.max(0, most - held) or 1e9)
    startable, next_start = room < 1e9 and whole(room) or '', at and whole(at) or ''
    for i = 1, #rates do startable = format_text('%s %s %d', startable, rates[i].name, rates[i].free) end
  end
  local paused = paused_of(q, config[1], config[2], config[3])
  return {paused, text_of(4), text_of(2), text_of(5), text_of(6), startable, next_start, config[7] or ''}
end
