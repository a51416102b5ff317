-- Notes that an item of a client leaves delayed. The client's count ends with its last item.
local function leave_delayed(q, client, envelope)
  count_delayed(q, client, -1)
  if q.weighs then weigh_out(q, DELAYED, {envelope}) end
  q.end_number = end_number
end
