"""The server of another queue system that gets the entries of an export.

A job that the system keeps in a hash has an id that follows from the item, so an export that is repeated finds the
jobs that it has written, and adds none of them twice.
The scripts have no shebang and no newer commands: they also run on servers that are too old for claimq's queues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import claimq
from claimq_cli.errors import REFUSED, CommandError
from claimq_cli.migration.layout import Entry, Job, Layout, NewEntry, Order
from claimq_cli.migration.layouts import RQ, BullMQ, Sidekiq
from claimq_cli.migration.new_entries import is_written
from claimq_cli.migration.other_server import OtherServer

# Reads ARGV from `at`: of each entry its value, when it is due (or ''), and the number and the words of the fields of
# its job; KEYS from `job` have the hashes of the jobs. Also returns the positions of entries whose job exists already.
_READ = """
local function read_entries(at, job)
  local entries, known = {}, {}
  while at <= #ARGV do
    local words = {}
    for i = at + 3, at + 2 + ARGV[at + 2] do words[#words + 1] = ARGV[i] end
    local one = {value = ARGV[at], due = ARGV[at + 1], words = words, job = KEYS[job + #entries]}
    entries[#entries + 1] = one
    if one.job and redis.call('EXISTS', one.job) == 1 then known[#known + 1] = #entries - 1 end
    at = at + 3 + #words
  end
  return entries, known
end
"""

# KEYS: list, sorted set of what is scheduled, set of the system's queues, then the hashes of jobs, if it has hashes.
# ARGV: the command that adds to the list, the member of the set of queues, then entries.
# Adds all entries, and returns nothing. If some jobs exist, returns their positions instead. The hash is written last:
# where it exists, the entry does.
_ADD = (
    _READ
    + """
redis.call('LLEN', KEYS[1])
redis.call('ZCARD', KEYS[2])
local entries, known = read_entries(3, 4)
if #known > 0 then return known end
redis.call('SADD', KEYS[3], ARGV[2])
for _, one in ipairs(entries) do
  if one.due == '' then redis.call(ARGV[1], KEYS[1], one.value)
  else redis.call('ZADD', KEYS[2], one.due, one.value) end
  if one.job then redis.call('HSET', one.job, unpack(one.words)) end
end
return known
"""
)

# KEYS: wait, delayed, prioritized, marker, meta, id, pc and events of BullMQ, then the hash of each job.
# ARGV: the highest number that is an id, then entries, due in milliseconds, whose fields begin with name, data, opts,
# timestamp, delay and priority.
# Does what BullMQ's own scripts do for new jobs. Returns as above, and false if the queue is paused.
_ADD_BULLMQ = (
    _READ
    + """
local wait, delayed, prioritized, marker, meta, id, pc, events = unpack(KEYS, 1, 8)
redis.call('LLEN', wait)
redis.call('ZCARD', delayed)
redis.call('ZCARD', prioritized)
redis.call('ZCARD', marker)
redis.call('GET', pc)
redis.call('XLEN', events)
local last = tonumber(redis.call('GET', id) or '0')
if redis.call('HEXISTS', meta, 'paused') == 1 then return false end
local entries, known = read_entries(2, 9)
if #known > 0 then return known end
if tonumber(ARGV[1]) > last then redis.call('SET', id, ARGV[1]) end
redis.call('HSETNX', meta, 'opts.maxLenEvents', 10000)
local longest = redis.call('HGET', meta, 'opts.maxLenEvents')
local function event(...) redis.call('XADD', events, 'MAXLEN', '~', longest, '*', 'event', ...) end
local function next_score(due)
  local first, last_one = due * 4096, (due + 1) * 4096 - 1
  local found = redis.call('ZREVRANGEBYSCORE', delayed, last_one, first, 'WITHSCORES', 'LIMIT', 0, 1)
  return found[2] and math.min(tonumber(found[2]) + 1, last_one) or first
end
for _, one in ipairs(entries) do
  local due, priority = tonumber(one.due), tonumber(one.words[12])
  event('added', 'jobId', one.value, 'name', one.words[2])
  if due then
    redis.call('ZADD', delayed, next_score(due), one.value)
    event('delayed', 'jobId', one.value, 'delay', one.due)
  else
    if priority > 0 then
      redis.call('ZADD', prioritized, priority * 4294967296 + redis.call('INCR', pc) % 4294967296, one.value)
    else
      redis.call('LPUSH', wait, one.value)
    end
    redis.call('ZADD', marker, 0, '0')
    event('waiting', 'jobId', one.value)
  end
  redis.call('HSET', one.job, unpack(one.words))
end
local earliest = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
if earliest then redis.call('ZADD', marker, earliest / 4096, '1') end
return known
"""
)


class TargetServer(OtherServer):
    """A connection to the server of the other system. An async context manager."""

    def __init__(self, settings: claimq.RedisSettings, layout: Layout) -> None:
        super().__init__(settings, "the server of the target")
        self._layout = layout

    async def add(self, entries: Sequence[NewEntry]) -> int:
        """Adds entries in order, in one step. Returns how many were there already, see :func:`is_written`. CommandError
        if an id belongs to another job, or the queue is paused; then nothing is added."""
        if not self._layout.has_job_hashes:
            await self._write(entries)
            return 0
        wanted: dict[bytes, NewEntry] = {}
        for entry in entries:
            if (first := wanted.setdefault(entry.value, entry)) is not entry:
                self._check_same(entry, first.job)
        left = list(wanted.values())
        while left and (known := await self._write(left)):
            for entry in [left[position] for position in known]:
                if job := await self._stored_job(entry):  # otherwise it is gone by now
                    self._check_same(entry, job)
                    left.remove(entry)
        return len(entries) - len(left)

    async def _write(self, entries: Sequence[NewEntry]) -> list[int]:
        """Adds the entries, or returns the positions of those whose job exists."""
        layout = self._layout
        place = layout.places[0]
        jobs = [key for entry in entries for key in self._job_key(entry)]
        match layout:
            case BullMQ(start=start):
                names = ("wait", "delayed", "prioritized", "marker", "meta", "id", "pc", "events")
                highest = max((int(entry.value) for entry in entries if entry.value.isdigit()), default=0)
                keys = [f"{start}{name}" for name in names] + jobs
                words = _words(entries, lambda instant: round(instant * 1000))
                known = await self.script(_ADD_BULLMQ, keys, highest, *words)
                if known is None:
                    raise CommandError(
                        f"the queue {layout.name} of BullMQ is paused; resume it, and stop its workers instead",
                        REFUSED,
                    )
                return list(known)
            case RQ() | Sidekiq() if layout.index is not None:
                keys = [place.key, layout.places[1].key, layout.index[0], *jobs]
                words = _words(entries, float)
                return list(await self.script(_ADD, keys, _push(place.order), layout.index[1], *words))
            case _:
                await self.call(_push(place.order), place.key, *(entry.value for entry in entries))
                return []

    def _job_key(self, entry: NewEntry) -> tuple[str, ...]:
        return tuple(key.decode() for key in self._layout.job_keys(Entry(0, None, entry.value))[:1])

    async def _stored_job(self, entry: NewEntry) -> Job:
        found: Job = await self.call("HGETALL", *self._job_key(entry))
        return found

    def _check_same(self, entry: NewEntry, other: Job) -> None:
        if not is_written(self._layout, entry, other):
            raise CommandError(
                f"the target has another job with the id {entry.value.decode()}; remove it there, or use another "
                "target. This item and those after it are still in the queue",
                REFUSED,
            )


def _push(next_end: Order) -> str:
    """The command that adds to a list whose consumers take from this end."""
    return "LPUSH" if next_end is Order.RIGHT else "RPUSH"


def _words(entries: Sequence[NewEntry], unit: Callable[[float], float]) -> list[str | bytes | float]:
    """The entries for the scripts, with instants in the unit that this function makes of Unix seconds."""
    found: list[str | bytes | float] = []
    for entry in entries:
        due = "" if entry.due_at is None else unit(entry.due_at)
        fields = [word for pair in entry.job.items() for word in pair]
        found += [entry.value, due, len(fields), *fields]
    return found
