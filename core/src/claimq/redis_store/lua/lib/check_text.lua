-- Refuses an error, a detail or a cause that is longer than what the library sends. A header then stays
-- within what read_meta() takes.
local TEXT_BYTES = 8192
local function check_text(...)
  for _, text in ipairs({...}) do
    if #text > TEXT_BYTES then
      error({err = 'ERR a text has at most ' .. TEXT_BYTES .. ' bytes, not ' .. #text})
    end
  end
end
