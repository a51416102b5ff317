-- A client's share as the hash `shares` has it (lib/shares.lua): base, tag, count, mean and weight, as words;
-- nil for a text that is no share. The weight is '' if it is 1.
local function share_words(text)
  return string.match(text or '', '^(%-?%d+) (%d+) (%d+) (%d+) ?([%d.]*)$')
end
