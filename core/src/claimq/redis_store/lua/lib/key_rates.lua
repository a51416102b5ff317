-- The rates per key, as a claim asks them (lib/key_limits.lua).
local function new_key_rates(q, rates)
  local levels, started, key_rates = {}, {}, {}

  -- Reads the levels of these keys.
  key_rates.look = function(keys)
    local names, fields = {}, {}
    for _, key in ipairs(keys) do
      if key ~= NO_KEY and levels[key] == nil then
        names[#names + 1], fields[#fields + 1], levels[key] = key, 'key ' .. key, false
      end
    end
    local texts = #fields > 0 and redis.call('HMGET', q.base .. 'starts', unpack(fields)) or {}
    for i, text in ipairs(texts) do levels[names[i]] = text end
  end

  -- How many items of a key may start now.
  key_rates.room = function(key)
    local room = math.huge
    for i = 1, #rates do
      read_level(q, rates[i], levels[key])
      room = math.min(room, free_of(rates[i], started[key]))
    end
    return room
  end

  -- When the next one may, if none does now.
  key_rates.next_start = function(key)
    local at
    for i = 1, #rates do
      read_level(q, rates[i], levels[key])
      if free_of(rates[i], started[key]) < 1 then at = math.max(at or 0, start_of(rates[i], started[key])) end
    end
    return at
  end

  key_rates.count = function(key) started[key] = (started[key] or 0) + 1 end

  -- Writes the starts that were counted.
  key_rates.write = function()
    local words = {}
    for key, count in pairs(started) do
      local text = ''
      for i = 1, #rates do
        read_level(q, rates[i], levels[key])
        add_starts(rates[i], count, q.first)
        text = text .. level_text(rates[i])
      end
      words[#words + 1], words[#words + 2] = 'key ' .. key, text
    end
    sliced(words, function(...) redis.call('HSET', q.base .. 'starts', ...) end)
  end

  return key_rates
end
