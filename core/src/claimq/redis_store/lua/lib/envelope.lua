-- An item as it is stored: "cq1 ID ENQUEUED_AT CLIENT META\nPAYLOAD"; CLIENT "-" is none, META "-" or a JSON object.
-- "cq1!" instead of "cq1 " marks an item that has crashed a worker: it is handed out alone.
-- Anything else is a bare payload that another Redis client pushed; it is adopted.
local HISTORY = 10

local function parse(envelope, now, number)
  local id, at, client, meta, start = string.match(envelope, '^cq1[ !](%S+) (%d+) (%S+) ([^\n]*)\n()')
  if not id then
    return {id = 'bare-' .. number, at = whole(now), client = '-', meta = {}, payload = envelope}
  end
  local ok, fields = false, nil
  if meta ~= '-' then ok, fields = pcall(cjson.decode, meta) end
  if not ok or type(fields) ~= 'table' then fields = {} end
  return {id = id, at = at, client = client, meta = fields, payload = string.sub(envelope, start)}
end

local function format(item)
  local meta = item.meta
  local mark = (meta.crashes or 0) > 0 and '!' or ' '
  local text = next(meta) and cjson.encode(meta) or '-'
  return 'cq1' .. mark .. item.id .. ' ' .. item.at .. ' ' .. item.client .. ' ' .. text .. '\n' .. item.payload
end

local function enqueued_at(envelope)
  return string.match(envelope, '^cq1[ !]%S+ (%d+) ')
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
  item.meta.first_at = item.meta.first_at or tonumber(item.at)
  item.at = whole(now)
end
