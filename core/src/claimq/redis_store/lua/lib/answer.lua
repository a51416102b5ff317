-- Gives back the claims of the groups in ARGV[at..] with one kind, error, detail and delay, in the order of claiming however they were named;
-- answers a verdict for each. Those for which there is no room in this call are answered 'later' and stay held: interrupted ones are taken
-- the newest first, since what goes to the head goes before them.
local function give_back(q, at, kind, error, detail, delay)
  local groups = read_claims(q, at)
  local verdicts, lost = find_held(q, groups)
  if lost == #verdicts then return verdicts end
  local policy, held, items, decided = policy_of(q), {}, {}, {}
  q.counts = {}
  for _, group in ipairs(groups) do
    for i, token in ipairs(group.tokens) do
      local position = group.first + i
      if verdicts[position] == '' then
        verdicts[position], held[#held + 1] = 'later', {group = group, token = token, number = tonumber(number_of(token)), position = position}
      end
    end
    group.live = {}
  end
  local newest_first = kind == 'interrupt'
  table.sort(held, function(a, b) if newest_first then return a.number > b.number end return a.number < b.number end)
  for i, claim in ipairs(held) do
    local group, position = claim.group, claim.position
    local envelope = redis.call('HGET', group.busy, claim.token)
    group.live[#group.live + 1], verdicts[position] = claim.token, 'lost'
    if envelope then
      local item = parse(envelope, q.now, number_of(claim.token))
      length_of(q, item.client)
      item.number = claim.number
      item.verdict = settle(q, policy, item, kind, error, group.worker, delay, detail)
      verdicts[position], items[#items + 1] = item.verdict, item
      if item.delay and item.delay > 0 then verdicts[position] = verdicts[position] .. ':' .. item.delay end
      if not has_room(q, #envelope) or #items == CALL_MOVES then break end
    end
  end
  table.sort(items, function(a, b) return a.number < b.number end)
  for i, item in ipairs(items) do decided[i] = item.verdict end
  place(q, policy, items, decided)
  for _, group in ipairs(groups) do let_go(q, group.busy, group.live) end
  if COUNTER[kind] then q.counts[kind == 'permanent' and 'fails' or COUNTER[kind]] = #items end
  return verdicts, true
end
