-- Gives back the claims of the groups in ARGV[at..] with one kind, error and delay; answers a verdict for each.
local function give_back(q, at, kind, error, delay)
  local groups = read_claims(q, at)
  local verdicts, lost = find_held(q, groups)
  if lost == #verdicts then return verdicts end
  local policy, items, decided, workers = policy_of(q), {}, {}, {}
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
          verdicts[i] = settle(q, policy, item, kind, error, group.worker, delay)
          items[#items + 1], decided[#decided + 1] = item, verdicts[i]
          if item.delay and item.delay > 0 then verdicts[i] = verdicts[i] .. ':' .. item.delay end
        else verdicts[i] = 'lost' end
      end
    end
  end
  for _, group in ipairs(groups) do let_go(q, group.busy, group.live) end
  place(q, policy, items, decided)
  if COUNTER[kind] then q.counts[kind == 'permanent' and 'fails' or COUNTER[kind]] = #items end
  return verdicts, true
end
