-- What keeps all items of a queue from being claimed: whether it is paused, as in lib/paused.lua; of the
-- pause: since and until (ms, or ""), by whom and why; how many items the limits let start now (or ""),
-- behind it how many clients have items, and the name of each rate and of each limit per client and how many
-- that lets start; when the limits let the next one start if none does (ms, or ""); the limits as config has
-- them. `held`: items in progress.
local PAUSE_BYTES = 1600

-- The same as read_limits() for the limits per client, and how many clients have items.
local function read_client_limits(q, text, names)
  -- include client_room
  local room, clients, first = client_room(q, text)
  for name in string.gmatch(text, '([%w-]+) client ') do
    names[#names + 1] = format_text(' %s %d', name, room)
  end
  return room, clients, room == 0 and first
end

local function held_back(q, held)
  local config = redis.call('HMGET', q.config, 'paused', 'paused_until', 'suspended', 'paused_at',
    'paused_by', 'paused_reason', 'limits')
  local function text_of(field) return string.sub(config[field] or '', 1, PAUSE_BYTES) end
  local startable, next_start, names = '', '', {}
  local text = config[7] and config[7] ~= '' and in_force(q, config[7])
  if text then
    local rates, most, room, at = read_limits(q, text, 1e9)
    room = math.min(room, most and math.max(0, most - held) or 1e9)
    for i = 1, #rates do names[i] = format_text(' %s %d', rates[i].name, rates[i].free) end
    local clients = 0
    if string.find(text, ' client ', 1, true) then
      local of_clients, first
      of_clients, clients, first = read_client_limits(q, text, names)
      room = math.min(room, of_clients)
      if first then at = math.max(at or first, first) end
    end
    startable = room < 1e9 and format_text('%d %d', room, clients) .. table.concat(names) or ''
    next_start = at and whole(at) or ''
  end
  local paused = paused_of(q, config[1], config[2], config[3])
  return {paused, text_of(4), text_of(2), text_of(5), text_of(6), startable, next_start, config[7] or ''}
end
