-- An item as it is stored: "cq1 ID ENQUEUED_AT CLIENT META\nPAYLOAD"; CLIENT "-" is none, META "-" or a JSON
-- object: the counters, the history, and "options", an object with what the producer gave beside the payload
-- (docs/decisions/item-options.md). "cq1!" instead of "cq1 " marks an item that has crashed a worker: it is
-- claimed alone. Anything else is a bare payload that another Redis client pushed; it is adopted as a whole,
-- whatever it begins with. What an envelope is, is decided here and in claimq/codec.py, by the same rules:
-- only what the scripts write, so that no two readers of JSON can disagree about it.
local HISTORY = 10

local NUMBERS = {'requeues', 'fails', 'crashes', 'interrupts', 'postponed', 'given_up', 'first_at'}
local MOST_OF_NUMBER, META_BYTES = 9999999999999, 65536
local HEADERS, HEADER_NAME, HEADER_VALUE = 16, 64, 1024
local MAX_REQUEUES = 1000000

-- Returns a function that says whether a text is JSON as the scripts write it: no blanks, no escapes but
-- those of the encoder, plain numbers and words, few levels.
local function new_json_check()
  local unescaped = {['"'] = '', ['\\'] = '', ['/'] = '', b = '', f = '', n = '', r = '', t = '', u = '\1'}
  local known = {}  -- most of what stands between texts is the same in all items

  -- What stands between two texts of some JSON: how many levels it opens and closes, or false if it is more
  -- than whole numbers of 13 digits, true, false and null. With more digits a number would come out of the
  -- encoder in another form.
  local function levels_in(between)
    for word in string.gmatch(between, '[^{}%[%],:]+') do
      local is_number = #word <= 13 and string.find(word, '^%d+$')
        and (#word == 1 or string.sub(word, 1, 1) ~= '0')
      if not is_number and word ~= 'true' and word ~= 'false' and word ~= 'null' then return false end
    end
    local _, opened = string.gsub(between, '[{%[]', '')
    local _, closed = string.gsub(between, '[}%]]', '')
    return {opened, closed}
  end

  return function(text)
    if string.find(text, '\\', 1, true) then
      text = string.gsub(string.gsub(text, '\\(.)', unescaped), '\1' .. '00%x%x', '')
      if string.find(text, '[\1\\]') then return false end
    end
    local level = 0
    for between in string.gmatch(text .. '""', '([^"]*)"[^"]*"') do
      local levels = known[between]
      if levels == nil then
        levels = levels_in(between)
        known[between] = levels
      end
      if not levels or level + levels[1] > 8 then return false end
      level = level + levels[1] - levels[2]
    end
    return true
  end
end

-- Returns a function that says whether a value is options as a script writes them. Options of later releases
-- are kept and not looked at.
local function new_options_check()
  local function is_headers(headers)
    if type(headers) ~= 'table' or #headers == 0 or #headers > 2 * HEADERS or #headers % 2 ~= 0 then
      return false
    end
    for i = 1, #headers, 2 do
      local name, value = headers[i], headers[i + 1]
      if type(name) ~= 'string' or #name > HEADER_NAME or not string.find(name, '^[a-z][a-z0-9-]*$') then
        return false
      end
      if type(value) ~= 'string' or #value > HEADER_VALUE or string.find(value, '[^ -~]') then
        return false
      end
    end
    return true
  end

  return function(options)
    if type(options) ~= 'table' or type(next(options)) ~= 'string' then return false end
    local deadline, limit = options.deadline, options.max_requeues
    local priority, key, cost = options.priority, options.key, options.cost
    if key ~= nil and (type(key) ~= 'string' or #key > ITEM_KEY or not string.find(key, '^[!-~]+$')) then
      return false
    end
    if priority ~= nil and priority ~= 'high' and priority ~= 'low' then return false end
    if cost ~= nil and not (type(cost) == 'number' and cost >= 1 and cost <= MOST_COST) then return false end
    if deadline ~= nil and type(deadline) ~= 'number' or limit ~= nil
      and not (type(limit) == 'number' and limit <= MAX_REQUEUES) then
      return false
    end
    return options.headers == nil or is_headers(options.headers)
  end
end

-- Returns a function that reads the counters, the history and the options of a header, or nil if a script has
-- not written that.
local function new_meta_reader()
  local is_plain_json, is_options = new_json_check(), new_options_check()
  local function is_or_nil(value, wanted) return value == nil or type(value) == wanted end

  local function is_history(history)
    if type(history) ~= 'table' or #history > HISTORY or (next(history) ~= nil and #history == 0) then
      return false
    end
    for _, entry in ipairs(history) do
      if type(entry) ~= 'table' or type(entry.at) ~= 'number' then return false end
      if type(entry.kind) ~= 'string' or type(entry.error) ~= 'string' or type(entry.worker) ~= 'string' then
        return false
      end
    end
    return true
  end

  return function(text)
    if string.sub(text, 1, 1) ~= '{' or #text > META_BYTES or string.find(text, '\0', 1, true)
      or not is_plain_json(text) then
      return nil
    end
    local ok, meta = pcall(cjson.decode, text)
    if not ok then return nil end
    for _, name in ipairs(NUMBERS) do if not is_or_nil(meta[name], 'number') then return nil end end
    if not (is_or_nil(meta.error, 'string') and is_or_nil(meta.detail, 'string')
      and is_or_nil(meta.reason, 'string') and is_or_nil(meta.spent, 'boolean')) then
      return nil
    end
    if meta.history ~= nil and not is_history(meta.history) then return nil end
    if meta.options ~= nil and not is_options(meta.options) then return nil end
    if meta.place ~= nil then
      if type(meta.place) ~= 'string' or #meta.place > 16 or not string.find(meta.place, '^%d+$') then
        return nil
      end
      meta.place = tonumber(meta.place)
      if meta.place > 9007199254740991 then return nil end
    end
    return meta
  end
end

-- The reader is made when the first such header comes.
local meta_reader
local function read_meta(text)
  if text == '-' then return {} end
  meta_reader = meta_reader or new_meta_reader()
  return meta_reader(text)
end

-- What stands in the header of an envelope: id, instant, client, meta, where the payload begins. Nil for a
-- bare payload.
local function read_header(envelope)
  local id, at, client, text, start = string.match(envelope, '^cq1[ !]([!-~]+) (%d+) ([!-~]+) ([^\n]+)\n()')
  local meta = id and #id <= 200 and #at <= 13 and #client <= 128 and read_meta(text)
  if meta then return id, at, client, meta, start end
end

-- The item of an envelope. What its header takes counts as bytes of this call.
local function parse(q, envelope, number)
  local id, at, client, meta, start = read_header(envelope)
  if not id then
    return {id = 'bare-' .. number, at = whole(q.now), client = '-', meta = {}, payload = envelope}
  end
  if next(meta) then has_room(q, header_bytes(envelope)) end
  return {id = id, at = at, client = client, meta = meta, payload = string.sub(envelope, start)}
end

-- What a reader refuses is not written: counters of too many digits, or too much of what another client wrote
-- into the header.
local function shorten(meta)
  local short = {options = meta.options, place = meta.place, spent = meta.spent,
    reason = meta.reason, error = meta.error and string.sub(meta.error, 1, 1000)}
  for _, name in ipairs(NUMBERS) do short[name] = meta[name] end
  return cjson.encode(short)
end

local function format(item)
  local meta = item.meta
  local mark = (meta.crashes or 0) > 0 and '!' or ' '
  local text, place = '-', meta.place
  if next(meta) then
    for i = 1, #NUMBERS do
      local number = meta[NUMBERS[i]]
      if number and number > MOST_OF_NUMBER then meta[NUMBERS[i]] = MOST_OF_NUMBER end
    end
    meta.place = place and whole(place)  -- as text: the encoder keeps 14 digits of a number
    text = cjson.encode(meta)
    if #text > META_BYTES then text = shorten(meta) end
    meta.place = place
  end
  return 'cq1' .. mark .. item.id .. ' ' .. item.at .. ' ' .. item.client .. ' ' .. text .. '\n'
    .. item.payload
end

-- The level of an item, by its priority: high or low; nil: normal.
local function level_of(meta) return meta.options and meta.options.priority end

-- How many ms remain until an item is late.
local function time_left(meta, now)
  return (meta.options and meta.options.deadline or math.huge) - now
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
