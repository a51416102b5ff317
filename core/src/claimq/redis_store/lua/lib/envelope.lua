-- An item as it is stored: "cq1 ID ENQUEUED_AT CLIENT META\nPAYLOAD"; CLIENT "-" is none, META "-" or a JSON object.
-- "cq1!" instead of "cq1 " marks an item that has crashed a worker: it is handed out alone.
-- Anything else is a bare payload that another Redis client pushed; it is adopted.
local HISTORY = 10

local NUMBERS = {'requeues', 'fails', 'crashes', 'interrupts', 'given_up', 'first_at'}

-- Another client can push anything that begins like a header, so what does not have the right type is left out.
local function read_meta(text)
  local ok, meta = pcall(cjson.decode, text)
  if not ok or type(meta) ~= 'table' then return {} end
  for _, name in ipairs(NUMBERS) do
    local value = meta[name]
    if value and not (type(value) == 'number' and value >= 0 and value < 1e15) then meta[name] = nil end
  end
  if type(meta.history) ~= 'table' or #meta.history > HISTORY then meta.history = nil end
  if type(meta.error) ~= 'string' then meta.error = nil end
  meta.place = string.match(tostring(meta.place), '^%d+$') and tonumber(meta.place)
  if type(meta.detail) ~= 'string' then meta.detail = nil end
  return meta
end

local function parse(envelope, now, number)
  local id, at, client, meta, start = string.match(envelope, '^cq1[ !](%S+) (%d+) (%S+) ([^\n]*)\n()')
  if not id or #at > 15 then
    return {id = 'bare-' .. number, at = whole(now), client = '-', meta = {}, payload = envelope}
  end
  return {id = id, at = at, client = client, meta = meta == '-' and {} or read_meta(meta), payload = string.sub(envelope, start)}
end

local function format(item)
  local meta = item.meta
  local mark = (meta.crashes or 0) > 0 and '!' or ' '
  local text, place = '-', meta.place
  if next(meta) then
    meta.place = place and whole(place)  -- as text: the encoder keeps 14 digits of a number
    local ok, encoded = pcall(cjson.encode, meta)
    if not ok then  -- something forged has no form in JSON: only what is ours is kept
      local ours = {place = meta.place}
      for _, name in ipairs(NUMBERS) do ours[name] = meta[name] end
      encoded = cjson.encode(ours)
    end
    text, meta.place = encoded, place
  end
  return 'cq1' .. mark .. item.id .. ' ' .. item.at .. ' ' .. item.client .. ' ' .. text .. '\n' .. item.payload
end

local function enqueued_at(envelope)
  local at = string.match(envelope, '^cq1[ !]%S+ (%d+) ')
  return at and #at <= 15 and at or nil
end

-- Adds one line to the item's history, which outlives the counters.
local function remember(item, now, kind, error, worker)
  local history = item.meta.history or {}
  history[#history + 1] = {at = now, kind = kind, error = string.sub(error, 1, 200), worker = worker}
  while #history > HISTORY do table.remove(history, 1) end
  item.meta.history = history
end

-- The item enters the tail of main at this instant; the first time it did so is kept.
local function restart_wait(item, now)
  item.meta.first_at, item.meta.place = item.meta.first_at or tonumber(item.at), nil
  item.at = whole(now)
end
