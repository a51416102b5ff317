-- A queue opened by one of its keys: its names, the server's clock, its sequence number. Reads only.

-- Writes a score that has a fraction (lib/numbers.lua).
local function fraction(number) return format_text('%.17g', number) end

-- Refuses the call of a user who may not run a command on the keys of the queue. The probe is about the
-- beginning of these keys, so no key pattern narrower than all of them covers it. Redis 8.6 and later refuse
-- a probe with another number of words than the command takes (docs/decisions/permissions.md).
local function refuse(base, command)
  error({err = 'NOPERM this user has no permissions to run ' .. command .. ' on all keys ' .. base .. '*'})
end
local function check_permission(base, command, ...)
  if not redis.acl_check_cmd(command, base, ...) then refuse(base, command) end
end

-- Checks the permission for every write command before the first write: the server keeps what a script wrote
-- before a refusal. Each of these commands takes three words, and as keys all of them are the same.
local function check_writes(base, commands)
  for i = 1, #commands do check_permission(base, commands[i], base, base) end
end

local LONGEST_LEASE_MS = 604800000
local function lease_ms(text) return math.floor(setting(text, 30000, 1, LONGEST_LEASE_MS)) end

-- The record q: one queue, in one call, with all of its fields (tests/arch/test_queue_record.py).
local function new_queue(main_key, base)
  local stats = base .. 'stats'
  local seq, clock_offset, seen_at, server, incarnation, client_items, largest, levels, keys, enqueued,
    claimed, done, number, longest, limits, bound, turns, reserve
    = unpack(redis.call('HMGET', stats, 'seq', 'clock_offset', 'seen_at', 'server', 'incarnation',
    'client_items', 'largest', 'levels', 'keys', 'enqueued', 'claimed', 'done', 'number', 'longest',
    'limits', 'bound', 'turns', 'reserve'))
  local time = redis.call('TIME')
  return {
    main = main_key,                  -- list: items without a client, newest left, oldest right
    base = base,                      -- prefix of all keys
    -- "busy:WORKER"                     hash: token -> envelope
    -- "calls:INSTANCE"                  hash: lane -> its last call and the reply
    -- "claims"                          zset: claim call -> its instant (ms)
    -- "present"                         zset: process that consumes -> when to look for it (lib/channel.lua)
    -- "failed", "failed:items"          zset: id -> failed at (ms), hash: id -> envelope
    -- "failed:reasons"                  hash: reason -> failed items with it (lib/reasons.lua)
    -- "removed"                         list: log of removed items
    -- "audit", "added"                  lists: audit log, and that of items added by hand
    -- "wake"                            list: at most one wake token
    -- "ids"                             zset: id that a producer gave -> when it is forgotten (lib/enqueue)
    -- "levels", "keys", "held"          hashes and zset, see lib/levels.lua and lib/keys.lua
    -- "limited"                         zset: key of items -> when the next one may start (lib/key_limits)
    -- "delayed:clients"                 hash: client -> how many of its items are in delayed
    -- "starts"                          hash: client, or "key KEY" -> levels of its rates (lib/start_limits)
    -- "in_progress"                     hash: sums of the items in progress (lib/in_progress)
    -- "pauses"                          hash: what is paused -> until when, by whom, why (lib/paused)
    -- "shares", "turns", "slots"        hashes, see lib/shares.lua, lib/order.lua and lib/slots.lua
    -- "bytes"                           hash: client -> bytes that wait, as stats has them (lib/weights)
    clients = base .. 'clients',      -- zset: client that has items ("-": main) -> tag (lib/tags)
    heads = base .. 'heads',          -- zset: client -> when its oldest item was enqueued (ms)
    delayed = base .. 'delayed',      -- zset: envelope -> due (ms)
    leases = base .. 'leases',        -- zset: token -> end of the lease (ms), and KEEPER
    workers = base .. 'workers',      -- zset: worker -> last seen (ms)
    config = base .. 'config',        -- hash: the policy
    stats = stats,                    -- hash: counters, sequence number, the queue's clock
    seq = number_in(seq, 0, LAST_NUMBER) + 1,  -- number of this transition
    now = time[1] * 1000 + math.floor(time[2] / 1000),  -- ms, by the queue's clock
    offset = number_in(clock_offset, FAR_BACK_MS, FAR_AHEAD_MS),  -- queue's clock minus the server's (ms)
    stored_offset = clock_offset,
    seen_at = number_in(seen_at, 0, LAST_MS),  -- when a call noted last that the queue was served (ms)
    server = server,                  -- server process that wrote the clock last
    stored_incarnation = incarnation,
    client_items = tonumber(client_items) or 0,  -- items in all clients' lists
    largest = tonumber(largest) or 0,  -- bytes of the largest item that was stored or claimed
    has_levels = levels,              -- whether items have priorities (lib/levels.lua)
    has_keys = keys,             -- whether items have keys: "1" and more (lib/key_limits.lua)
    limits = limits,                  -- starts that count for the limits (lib/start_limits)
    bound = bound,                    -- whether the policy bounds what waits: "1", or the bytes that wait
    turns = turns,                    -- of clients by processing time: "AT MEAN" (lib/shares)
    stored_reserve = reserve,         -- which slots are kept free for quiet clients (lib/reserve)
    weighs = bound and bound ~= '1',  -- whether bytes are counted (lib/weights)
    stored_longest = longest,         -- the longest that a claim took lately, and when it ended (lib/longest)
    totals = {                        -- counters that close() writes without reading them again
      enqueued = enqueued, claimed = claimed, done = done,  -- as they are stored
      number = number_in(number, 0, LAST_NUMBER),
    },
    -- Fields that a call sets as it goes, and the files that set them:
    -- grace_from, grace_until: a new period of grace, in ms (lib/queue)
    -- server_since: since when another server process serves the queue, in ms (lib/queue)
    -- stepped: whether the fields of the clock are written (lib/clock, lib/queue)
    -- new_incarnation: name of the queue's data, where it changes (lib/queue, lib/lease)
    -- incarnation: name of the data on this server process; "" before a claim (lib/before_claim, lib/lease)
    -- calls, refreshed: key of the kept replies (hash), when its expiry was put off last, as text (lib/call)
    -- bytes: bytes of items that this call has read (lib/room, explain, recount)
    -- longest: a longer one that this call has ended, in ms (lib/longest)
    -- has_grown: whether the largest item is written (lib/sizes, lib/main, lib/take)
    -- counts: counter -> how many more (lib/take, give_back, reap, recount, release_worker)
    -- wake_tokens: length of wake (flush_client, lib/enqueue, lib/lease, lib/wake)
    -- put: items delayed by this call, minus 1 (lib/delay)
    -- more_delayed: client -> change of its items in delayed (lib/delay)
    -- end_number: removes a number that is 0 for a client (flush_client, lib/leave_delayed, lib/weigh_out)
    -- lengths: client -> items in its lists, read once (lib/lengths)
    -- last_tag: the highest tag of the ring (lib/tags)
    -- has_parked: whether clients are parked (lib/tags, lib/park)
    -- park: limits and pauses of clients, while there are some (lib/limit_starts)
    -- in_main: items in the list `main`, until this call changes it (claim, lib/take)
    -- pauses: how many clients are paused, if any is (lib/before_claim, lib/held_back)
    -- has_paused_keys: whether keys are paused (lib/before_claim)
    -- fairness: the policy: "count", or by time, with the weights of clients (lib/before_claim)
    -- turn: the field turns as a record (lib/shares, lib/sweep_shares)
    -- claimer: what a claim knows for the reserve (lib/lease)
    -- reserve, write_reserve: the field as a record, how close() writes it (lib/slots)
    -- room: how many items this call may start until slots are kept free (lib/slots)
    -- is_kept: whether items wait since slots are kept free (lib/turns, lib/plan, lib/in_turns)
    -- fills_slots: whether no worker may claim ahead, since slots are kept free (lib/slots)
    -- shares: client -> its share (lib/shares)
    -- write_shares: how close() writes those that changed (lib/shares, lib/sweep_shares)
    -- order: clients of the items that this call takes (lib/turns, lib/order, lib/plan)
    -- note_ends, settle_turns: how ends of claims are noted, and what close() calls (lib/end_turns)
    -- unused: the claims that end were never begun (give_back)
    -- unknown: clients that have items and are missing in heads (lib/lengths)
    -- entering: clients that had no items (lib/main)
    -- more_client_items: change of client_items (lib/main, lib/ring, lib/plan, lib/settle_client)
    -- costs: what items cost, while limits by cost hold (lib/costs)
    -- cost_limits: the limits that count costs (lib/enqueue)
    -- limit, id_window, durability: the policy: bytes of a payload, ms, what to wait for (lib/enqueue)
    -- weights: how many bytes wait, in all and changes by client (lib/weights)
    -- known, old_ids, own_ids: ids of producers: in this call, to forget, how many are added (lib/enqueue)
    -- put_ids: how many ids of producers are written so far (lib/enqueue)
    -- enqueued: items enqueued by this call (lib/enqueue)
    -- brings_keys: whether an item of this call has a key (lib/enqueue)
    -- keys: key -> how many more claims may have it (lib/take)
    -- key_of: envelope -> its key, for items that have nothing else in their headers (lib/take)
    -- takers: keys that this call takes, which of its items does, and its cost (lib/take, claim_item)
    -- most_of_key: how many claims may have a key (lib/keys, lib/key_field)
    -- key_rates: the rates per key, while there are some (lib/take)
    -- waiting: items that this call has held for their keys, or 0 after it let some go (lib/hold, lib/take)
    -- last: the last number that a token of this call may have (lib/take)
    -- has_held: whether items are held (lib/hold)
    -- overtaken, behind: keys of held items that another one may not overtake (lib/hold, lib/take)
    -- others: key -> other claims that have it (lib/hold, claim_item)
    -- freed: keys of claims that end after a part that may be refused (lib/free_keys)
    -- ending: tokens whose claims this call ends (done_claim)
    -- first: number of the first token (lib/take, claim_item)
    -- left: items that remain in main, roughly (lib/take, claim_item)
    -- has_written: it wrote (done_claim, lib/take, lib/in_turns, lib/limit_starts, lib/park, lib/unpark)
    -- is_full: items wait for the end of a claim from now on (lib/take, claim_item)
    -- has_starts: whether limits is written (lib/limit_starts, give_back)
    -- adopted: bare payloads that got a header (lib/take)
    -- past: items that are late (lib/take)
    -- weight: items, those with counters counted more often (lib/take)
    -- are_plain: whether no item needs more than its size to be noted (lib/take, lib/in_turns)
    -- stopped: whether the next call may find more (lib/take, lib/in_turns, lib/ring, lib/park)
    -- lost_lists: clients of the ring without a list (lib/in_turns, lib/ring)
    -- took_round: whether a round of the ring has written (lib/ring, lib/plan)
    -- same: failed items with the id of another one (lib/put_failed)
    -- over_items, over_bytes: bounds that remain for max_items (lib/put_failed)
    -- shape: the last error and its reason (lib/shape)
    -- reasons, new_reasons: reason -> change of its count, how many were not counted (lib/reasons)
    -- removals: entries of the log of removed items (lib/removed)
    -- merge_items, merge_bytes: bounds that remain for items given back before (lib/head, lib/release)
  }
end

-- No call touched the queue for longer: the server was down, or its clock was stepped.
local GAP_MS = 5000
-- The longest period of grace.
local GRACE_MS = 10000

-- Opens a queue by its main key for a script that writes with these commands.
local function open(main_key, writes)
  local base = string.sub(main_key, 1, -5)
  check_writes(base, writes)
  local q = new_queue(main_key, base)
  read_clock(q)
  if q.seen_at > 0 and q.now - q.seen_at > GAP_MS then
    -- One period of grace, in which live holders renew. Leases that had ended before the gap get none: a
    -- queue that is looked at seldom would otherwise never end a lease.
    local expiry = redis.call('HGET', q.config, 'busy_expiry_ms')
    q.grace_until = q.now + math.min(math.floor(lease_ms(expiry) / 3), GRACE_MS)
    q.grace_from, q.stepped = q.seen_at, true
  end
  -- Another server process may have lost the last writes, among them verdicts and renewals. An address in its
  -- memory names the process; with randomized addresses two processes have the same one by a rare chance only
  -- (docs/decisions/call-identity.md).
  if q.server ~= tostring(redis) then
    q.server_since, q.stepped, q.new_incarnation = q.server and q.now or 0, true, ''
  end
  return q
end
