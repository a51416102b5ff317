-- The cost in the header of an envelope: 1 unless its producer gave another one.
local function cost_of(envelope)
  return setting(string.match(envelope, '^cq1[ !][!-~]+ %d+ [!-~]+ {[^\n]*"cost":(%d+)'), 1, 1, MOST_COST)
end
