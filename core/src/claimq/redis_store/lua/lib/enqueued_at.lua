-- When a stored item was enqueued (ms, as text), without a check of its header; nil if it does not say.
local function enqueued_at(envelope)
  local from, at, to, ends = string.match(envelope, '^cq1[ !][!-~]+ ()(%d+)() [!-~]+() [^\n]+\n')
  return at and from <= 206 and #at <= 13 and ends - to <= 129 and at or nil
end
