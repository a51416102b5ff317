-- The log of claim calls: a sorted set of "FIRST COUNT NONCE WORKER" by the instant of the call. Calls that
-- have ended stay in it until repair forgets them. This looks through a page of the log (members and scores).
-- It returns the calls that have ended, the instant of the first one that has not (or nil), how many calls it
-- looked at, a table: worker -> number of its items in busy, and the first live token (or nil). It stops
-- after 2,000 tokens, and then counts the call where it stops as live.
local function look_through(q, page, stop_at_live)
  local ended, live_at, tokens, held, oldest = {}, nil, 0, {}, nil
  for i = 1, #page, 2 do
    local first, count, nonce, worker = string.match(page[i], '^(%d+) (%d+) (%S+) (.*)$')
    local live = false
    if first then  -- a member of another form is not from these scripts, and counts as ended
      local busy = q.base .. 'busy:' .. worker
      held[worker] = held[worker] or redis.call('HLEN', busy)
      if held[worker] > 0 then
        for n = 0, math.min(tonumber(count), CALL_ITEMS) - 1 do
          tokens = tokens + 1
          if tokens > 2000 then return ended, live_at or page[i + 1], (i - 1) / 2, held, oldest end
          local token = worker .. '/' .. (n == 0 and first or whole(first + n)) .. '.' .. nonce
          if redis.call('HEXISTS', busy, token) == 1 then
            live, oldest = true, oldest or token
            break
          end
        end
      end
    end
    if live then
      live_at = live_at or page[i + 1]
      if stop_at_live then break end
    else ended[#ended + 1] = page[i] end
  end
  return ended, live_at, #page / 2, held, oldest
end
