-- What is read of an envelope without its header being checked.

local function header_bytes(envelope)
  local _, size = string.find(envelope, '^cq1[ !][!-~]+ %d+ [!-~]+ {[^\n]*')
  return (size or 0) * HEADER_WEIGHT
end

-- Whether an item has neither counters nor a history nor options, like most: then nothing in its header needs
-- to be checked.
local function is_plain(envelope)
  local from, to, ends = string.match(envelope, '^cq1 [!-~]+ ()%d+() [!-~]+() %-\n')
  return from and from <= 206 and to - from <= 13 and ends - to <= 129
end
