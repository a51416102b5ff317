-- Puts items into delayed.
local function fraction(number) return format_text('%.17g', number) end

-- Delays an item until an instant in ms. What one call delays to one instant stays in its order: the score's
-- fraction counts it.
local function put_delayed(q, due, envelope)
  note_size(q, #envelope)
  q.put = math.min((q.put or -1) + 1, 1023)
  redis.call('ZADD', q.delayed, fraction(due + q.put / 1024), envelope)
end
