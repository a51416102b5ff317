-- Gives back the claims of the groups in ARGV[at..] with one kind, error, detail and delay, in the order of claiming however they were named;
-- answers a verdict for each.
local function give_back(q, at, kind, error, detail, delay)
  local groups = read_claims(q, at)
  local verdicts, lost = find_held(q, groups)
  if lost == #verdicts then return verdicts end
  local policy, items, decided, sorted, last = policy_of(q), {}, {}, true, 0
  q.counts = {}
  for _, group in ipairs(groups) do
    local next_live, envelopes = 1, items_of(group)
    for i = group.first + 1, group.first + #group.tokens do
      if verdicts[i] == '' then
        local token, envelope = group.live[next_live], envelopes[next_live]
        next_live = next_live + 1
        if envelope then
          local item = parse(envelope, q.now, number_of(token))
          length_of(q, item.client)
          item.number = tonumber(number_of(token))
          sorted, last = sorted and item.number > last, item.number
          verdicts[i] = settle(q, policy, item, kind, error, group.worker, delay, detail)
          item.verdict, items[#items + 1] = verdicts[i], item
          if item.delay and item.delay > 0 then verdicts[i] = verdicts[i] .. ':' .. item.delay end
        else verdicts[i] = 'lost' end
      end
    end
  end
  if not sorted then table.sort(items, function(a, b) return a.number < b.number end) end
  for i, item in ipairs(items) do decided[i] = item.verdict end
  place(q, policy, items, decided)
  for _, group in ipairs(groups) do let_go(q, group.busy, group.live) end
  if COUNTER[kind] then q.counts[kind == 'permanent' and 'fails' or COUNTER[kind]] = #items end
  return verdicts, true
end
