-- Texts in arguments.
-- An error, its detail or a cause: at most what the library sends, so that a header stays within what read_meta() takes.
local TEXT_BYTES = 8192
local function check_text(...)
  for _, text in ipairs({...}) do
    if #text > TEXT_BYTES then error({err = 'ERR a text has at most ' .. TEXT_BYTES .. ' bytes, not ' .. #text}) end
  end
end
