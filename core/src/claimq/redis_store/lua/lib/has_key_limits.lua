-- Whether limits per key hold, or have held: `limits` of the policy may have some.
local function has_key_limits(q, limits)
  return q.has_keys and (q.has_keys ~= '1' or limits and string.find(limits, ' key ', 1, true))
end
