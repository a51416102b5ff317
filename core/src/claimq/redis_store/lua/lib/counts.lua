-- Returns an argument that is a whole number from least to CALL_ITEMS, or refuses the call.
local function count_of(word, least)
  local count = tonumber(word)
  if not count or count < least or count > CALL_ITEMS or count % 1 ~= 0 then
    error({err = 'ERR a count is a whole number from ' .. least .. ' to ' .. CALL_ITEMS .. ', not '
      .. string.sub(tostring(word), 1, 40)})
  end
  return count
end
