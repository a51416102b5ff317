"""The server of another queue system: pages of entries, and the import's own list on that server.

A batch of entries first moves to that list, then the items are enqueued with ids that follow from the entries, then the
list is deleted. Whenever the import dies, the next run begins with what is in the list, with the same ids.
The scripts have no shebang and no newer commands: they also run on servers that are too old for claimq's queues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import claimq
from claimq_cli.migration.layout import Entry, Layout, LeftAlone
from claimq_cli.migration.other_server import OtherServer

PAGE_BYTES = 4 * 1024 * 1024

# KEYS: a place. ARGV: order, first position, most entries, most bytes. Returns value, score, value, score ...
_PAGE = """
local found, bytes = {}, 0
local at, last, most = tonumber(ARGV[2]), ARGV[2] + ARGV[3] - 1, tonumber(ARGV[4])
while at <= last do
  local to, some = math.min(at + 9, last), nil
  local step = 1
  if ARGV[1] == 'scores' then some, step = redis.call('ZRANGE', KEYS[1], at, to, 'WITHSCORES'), 2
  elseif ARGV[1] == 'left' then some = redis.call('LRANGE', KEYS[1], at, to)
  else
    some = {}
    local turned = redis.call('LRANGE', KEYS[1], -1 - to, -1 - at)
    for i = #turned, 1, -1 do some[#some + 1] = turned[i] end
  end
  for i = 1, #some, step do
    bytes = bytes + #some[i]
    if bytes > most and #found > 0 then return found end
    found[#found + 1] = some[i]
    found[#found + 1] = step == 2 and some[i + 1] or ''
  end
  if #some < (to - at + 1) * step then return found end
  at = to + 1
end
return found
"""

# KEYS: own list, own hash, a place. ARGV: order, index of the place, queue, instant, token, then values.
# Moves those values that are still there to the own list, unless that has entries already.
_TAKE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local moved = 0
for i = 6, #ARGV do
  local score, removed = '', 0
  if ARGV[1] == 'scores' then
    score = redis.call('ZSCORE', KEYS[3], ARGV[i]) or ''
    removed = redis.call('ZREM', KEYS[3], ARGV[i])
  else
    removed = redis.call('LREM', KEYS[3], ARGV[1] == 'left' and 1 or -1, ARGV[i])
  end
  if removed == 1 then
    redis.call('RPUSH', KEYS[1], ARGV[2] .. '|' .. score .. '|' .. ARGV[i])
    moved = moved + 1
  end
end
redis.call('HSETNX', KEYS[2], 'token', ARGV[5])
redis.call('HMSET', KEYS[2], 'queue', ARGV[3], 'taken_at', ARGV[4])
return moved
"""

# KEYS: own list, own hash, then keys of jobs. ARGV: token, entries before this batch, entries of this batch.
# Deletes the batch, unless another import has deleted it.
_FINISH = """
if redis.call('HGET', KEYS[2], 'token') ~= ARGV[1] then return 0 end
if (redis.call('HGET', KEYS[2], 'moved') or '0') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[2], 'moved', ARGV[2] + ARGV[3])
redis.call('DEL', KEYS[1])
for i = 3, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
"""

# KEYS: own list, own hash. Deletes the hash when no batch is left.
_CLOSE = "if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('DEL', KEYS[2]) end return 0"


@dataclass(frozen=True, slots=True)
class Batch:
    """The entries of the import's own list, and the fields of the hash beside it: the token of the import, how many
    entries it moved before, the queue they go to, and when they were taken, by the clock of that queue's server."""

    entries: tuple[Entry, ...]
    token: str
    moved: int
    queue: str
    taken_at: float


class SourceServer(OtherServer):
    """A connection to the server of the other system. An async context manager."""

    def __init__(self, settings: claimq.RedisSettings, layout: Layout) -> None:
        super().__init__(settings, "the server of the source")
        self._layout = layout
        self._list, self._hash = f"{layout.own_key}:batch", f"{layout.own_key}:progress"

    async def page(self, place: int, first: int, most: int) -> list[Entry]:
        """Entries of a place in the order of the source, beginning at a position."""
        at = self._layout.places[place]
        found = await self.script(_PAGE, [at.key], at.order, first, most, PAGE_BYTES)
        return [
            Entry(place, float(score) if score else None, value)
            for value, score in zip(found[::2], found[1::2], strict=True)
        ]

    async def jobs(self, entries: Sequence[Entry]) -> list[dict[bytes, bytes]]:
        """The hashes of the entries' jobs."""
        keys = [self._layout.job_keys(entry)[:1] for entry in entries]
        return [await self.call("HGETALL", *key) if key else {} for key in keys]

    async def take(self, entries: Sequence[Entry], *, queue: str, now: float, token: str) -> None:
        """Moves entries of one place to the import's own list, in one step, if they are still in that place."""
        place = entries[0].place
        at = self._layout.places[place]
        values = [entry.value for entry in entries]
        keys = [self._list, self._hash, at.key]
        await self.script(_TAKE, keys, at.order, place, queue, now, token, *values)

    async def batch(self) -> Batch | None:
        """The batch that was taken last and is not finished; None without one."""
        raw = await self.call("LRANGE", self._list, 0, -1)
        if not raw:
            return None
        token, moved, queue, taken_at = await self.call(
            "HMGET", self._hash, "token", "moved", "queue", "taken_at"
        )
        entries = tuple(map(Entry.stored, raw))
        return Batch(entries, token.decode(), int(moved or 0), queue.decode(), float(taken_at))

    async def finish(self, batch: Batch) -> None:
        """Deletes a batch with the jobs of its entries, in one step."""
        jobs = [key for entry in batch.entries for key in self._layout.job_keys(entry)]
        keys = [self._list, self._hash, *jobs]
        await self.script(_FINISH, keys, batch.token, batch.moved, len(batch.entries))

    async def close_import(self) -> None:
        """Deletes what the import keeps on the server, if no batch is left."""
        await self.script(_CLOSE, [self._list, self._hash])

    async def length(self, left: LeftAlone) -> int:
        """How many entries a key has."""
        return int(await self.call("ZCARD" if left.kind == "zset" else "LLEN", left.key))
