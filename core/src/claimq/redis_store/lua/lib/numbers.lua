-- Numbers as scripts read and write them.

-- What a script stores or sends is text. A number that it passes on is written by the server, as 1e+8 by
-- Redis 7.2.4, and Lua prints a number with a loss of digits from 1e14 on; such a text in a field or an index
-- is refused later. So whole() writes every number, and fraction() of lib/queue.lua a score that has a
-- fraction.
local format_text = string.format
local function whole(number) return format_text('%d', number) end

-- A number of the config, which any client may have set: the default if it is none, and within its bounds
-- (claimq/policy.py has the same).
local function setting(text, default, least, most)
  local value = tonumber(text)
  if not value or value ~= value then return default end
  return math.max(least, math.min(value, most))
end

-- A number of stats, which any client may have set: 0 if it is out of these bounds. Most are 0, which takes
-- no conversion.
local function number_in(text, least, most)
  local number = text and text ~= '0' and tonumber(text)
  return number and number >= least and number <= most and number or 0
end
