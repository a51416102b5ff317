-- The reason of a failure: the shape of its error. Numbers, ids, quoted texts, paths and addresses are left
-- out, so that equal failures have equal reasons. It is computed when an item goes to failed, and is kept in
-- its header: nothing else decides what the reason of an item is.
local SHAPE_READ, SHAPE_BYTES = 300, 200
local HEX = '%x%x%x%x'
local UUID = '%f[%w]' .. HEX .. HEX .. string.rep('%-' .. HEX, 4) .. HEX .. HEX .. '%f[%W]'

-- A word of hexadecimal digits is an id, but for words like "add", "decade" and "2d".
local function hex_word(word)
  return #word >= (string.find(word, '%d') and 4 or 7) and '#' or word
end

-- An address of IPv6; "a::b" is none.
local function address(word) return string.find(word, '%d') and '#' or nil end

-- A long word with several numbers is an id (a ULID, say); "OAuth2TokenExpired" is none.
local function mixed_word(word)
  return #word >= 12 and string.find(word, '%d%a+%d') and '#' or (string.gsub(word, '%d+', '#'))
end

-- The first bytes of a text, without a part of a character of UTF-8 at the end.
local function beginning(text, bytes)
  if #text <= bytes then return text end
  local kept = string.sub(text, 1, bytes)
  if not string.find(text, '^[\128-\191]', bytes + 1) then return kept end
  return (string.gsub(kept, '[\192-\255]?[\128-\191]*$', ''))
end

-- The text without the name of the worker, which is not a part of another word.
local function without_worker(text, worker)
  local from, to = 1, nil
  while worker ~= '' do
    from, to = string.find(text, worker, from, true)
    if not from then break end
    local is_part = string.find(text, '^[%w_]', to + 1)
      or string.find(string.sub(text, 1, from - 1), '[%w_%-]$')
    if is_part then from = to + 1
    else text, from = string.sub(text, 1, from - 1) .. 'a worker' .. string.sub(text, to + 1), from + 8 end
  end
  return text
end

local function new_shape(error, worker)
  local line = string.match(error, '^%s*([^\r\n]*)')
  if line == '' then return 'no error was given' end
  local gsub, text = string.gsub, ' ' .. without_worker(beginning(line, SHAPE_READ), worker)
  local function has(part) return string.find(text, part, 1, true) end
  if has('://') then text = gsub(text, "(%a://)[^%s'\"<>),;]+", '%1...') end
  if has('"') and not has('{"') then text = gsub(text, '([^%w])"[^"]*"', "%1'...'") end
  if has("'") then text = gsub(text, "([^%w][bBrR]?)'[^']*'", "%1'...'") end
  if has('/') then text = gsub(text, "([^%w/.])~?/[%w._%-][^%s:,;'\"()<>]*", '%1/...') end
  if has(':\\') then text = gsub(text, "%f[%w]%a:\\[^%s:,;'\"()<>]*", '/...') end
  if has('@') then text = gsub(text, '[%w._%%+-]+@[%w-]+%.[%w.-]*%w', '...@...') end
  if has('::') then text = gsub(text, '%f[%w:]%x*:%x*:[%x:.]*', address) end
  if has('-') then text = gsub(text, UUID, '#') end
  if has('0x') then text = gsub(text, '%f[%w]0x%x+', '#') end
  local has_digits = string.find(text, '%d')
  if has_digits then text = gsub(text, '%f[%w]%d[%d.,:]*%f[%W]', '#') end
  text = gsub(text, '%f[%w]%x+%f[%W]', hex_word)
  if has_digits then text = gsub(text, '%f[%w]%w*%d%w*', mixed_word) end
  -- what the encoder of JSON would escape; remove_failed reads the reason without decoding the header
  text = gsub(text, '[%c\127]+', ' ')
  if has('"') then text = gsub(text, '"', "'") end
  if has('\\') then text = gsub(text, '\\', '/') end
  if string.find(text, ' $') then text = gsub(text, ' +$', '') end
  return beginning(string.sub(text, 2), SHAPE_BYTES)
end

-- The reason of an error that this worker gave. The items of a call often have one error.
local function shape_of(q, error, worker)
  local known = q.shape
  if not known or known.error ~= error or known.worker ~= worker then
    known = {error = error, worker = worker, shape = new_shape(error or '', worker)}
    q.shape = known
  end
  return known.shape
end
