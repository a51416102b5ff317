"""The server of another queue system: pages of entries, and the import's own list on that server.

A batch of entries first moves to that list, then the items are enqueued with ids that follow from the entries, then the
list is deleted. Whenever the import dies, the next run begins with what is in the list, with the same ids. What the
queue refuses goes back to its place.
The scripts have no shebang and no newer commands: they also run on servers that are too old for claimq's queues.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import claimq
from claimq.errors import WrongKeyType
from claimq.redis_store.clients.opening import make_client
from claimq.redis_store.faults import translate
from claimq_cli.migration.layout import Entry, Job, Kept, Layout, LeftAlone, Order

PAGE_BYTES = 4 * 1024 * 1024
_SCANS, _NAMES = 1000, 100
"""How far the search for names of queues goes."""
_KINDS = {"list": "list", "zset": "sorted set", "set": "set"}
_TYPES = {"list": "list", "zset": "zset", "rq-limits": "set", "bullmq-newer": "list"}
_ACTIVE = 1000
"""So many active jobs are looked at."""

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

# KEYS: own list, own hash, mark, a place. ARGV: order, index of the place, queue, instant, token, mark, then RENAMED
# and value of each entry. Moves those values that are still there to the own list, unless that has entries already.
_TAKE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HLEN', KEYS[2])
local is_set = ARGV[1] == 'scores'
redis.call(is_set and 'ZCARD' or 'LLEN', KEYS[4])
redis.call('SETNX', KEYS[3], ARGV[6])
redis.call('HSETNX', KEYS[2], 'token', ARGV[5])
redis.call('HMSET', KEYS[2], 'queue', ARGV[3], 'taken_at', ARGV[4])
local moved = 0
for i = 7, #ARGV, 2 do
  local value, score, removed = ARGV[i + 1], '', 0
  if is_set then
    score = redis.call('ZSCORE', KEYS[4], value) or ''
    removed = redis.call('ZREM', KEYS[4], value)
  else
    removed = redis.call('LREM', KEYS[4], ARGV[1] == 'left' and 1 or -1, value)
  end
  if removed == 1 then
    redis.call('RPUSH', KEYS[1], ARGV[2] .. '|' .. score .. '|' .. ARGV[i] .. '|' .. value)
    moved = moved + 1
  end
end
return moved
"""

# KEYS: own list, own hash, a place, then keys of jobs. ARGV: token, entries before this batch, entries of this batch,
# order, then score and value of each entry that goes back to the place, the next one first.
# Deletes the batch and the jobs, unless another import has done so.
_FINISH = """
if redis.call('HGET', KEYS[2], 'token') ~= ARGV[1] then return 0 end
if (redis.call('HGET', KEYS[2], 'moved') or '0') ~= ARGV[2] then return 0 end
redis.call(ARGV[4] == 'scores' and 'ZCARD' or 'LLEN', KEYS[3])
redis.call('HSET', KEYS[2], 'moved', ARGV[2] + ARGV[3])
for i = #ARGV - 1, 5, -2 do
  if ARGV[4] == 'scores' then redis.call('ZADD', KEYS[3], 'NX', ARGV[i], ARGV[i + 1])
  else redis.call(ARGV[4] == 'left' and 'LPUSH' or 'RPUSH', KEYS[3], ARGV[i + 1]) end
end
redis.call('DEL', KEYS[1])
for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
return 1
"""

# KEYS: any. Returns the positions of those that exist, from 0.
_EXISTING = """
local found = {}
for i = 1, #KEYS do if redis.call('EXISTS', KEYS[i]) == 1 then found[#found + 1] = i - 1 end end
return found
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


class SourceServer:
    """A connection to the server of the other system, which may have no queues of claimq. An async context manager."""

    def __init__(self, settings: claimq.RedisSettings, layout: Layout) -> None:
        self._client: Any = make_client(settings, waiting=False)
        self._layout = layout
        self._list, self._hash = f"{layout.own_key}:batch", f"{layout.own_key}:progress"
        self._mark = f"{layout.own_key}:source"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def call(self, *words: str | bytes | float) -> Any:
        """Runs a command once. Raises errors of the library."""
        try:
            return await self._client.execute_command(*words)
        except Exception as error:
            raise translate(error, doing="the server of the source") from error

    async def script(self, text: str, keys: Sequence[str | bytes], *words: str | bytes | float) -> Any:
        """Runs a script once."""
        return await self.call("EVAL", text, len(keys), *keys, *words)

    async def page(self, place: int, first: int, most: int) -> list[Entry]:
        """Entries of a place in the order of the source, beginning at a position."""
        at = self._layout.places[place]
        words = await self.script(_PAGE, [at.key], at.order, first, most, PAGE_BYTES)
        return [
            Entry(place, float(score) if score else None, value)
            for value, score in zip(words[::2], words[1::2], strict=True)
        ]

    async def jobs(self, entries: Sequence[Entry]) -> list[Job | Kept]:
        """The hashes of the entries' jobs, or why an entry must stay."""
        jobs = [await self._job(entry) for entry in entries]
        blockers: list[tuple[int, bytes, str]] = []
        for position, (entry, job) in enumerate(zip(entries, jobs, strict=True)):
            if not isinstance(job, Kept):
                blockers += [(position, key, why) for key, why in self._layout.blockers(entry, job).items()]
        existing: list[int] = (
            await self.script(_EXISTING, [key for _, key, _ in blockers]) if blockers else []
        )
        for number in existing:
            position, _, why = blockers[number]
            jobs[position] = Kept(why)
        return jobs

    async def _job(self, entry: Entry) -> Job | Kept:
        keys = self._layout.job_keys(entry)[:1]
        try:
            return await self.call("HGETALL", *keys) if keys else {}
        except WrongKeyType:
            return Kept("its key is not a hash")

    async def wrong_types(self) -> dict[str, str]:
        """The keys of the source that have another type than they need, and both types."""
        types = {
            place.key: "zset" if place.order is Order.SCORES else "list" for place in self._layout.places
        }
        types |= {place.key: _TYPES[place.kind] for place in self._layout.left_alone}
        wrong: dict[str, str] = {}
        for key, kind in types.items():
            kind_there = await self._type(key)
            if kind_there not in ("none", kind):
                wrong[key] = f"a {_KINDS.get(kind_there, kind_there)} and not a {_KINDS[kind]}"
        return wrong

    async def _type(self, key: str) -> str:
        kind = await self.call("TYPE", key)
        return kind.decode() if isinstance(kind, bytes) else str(kind)

    async def mark(self, *, is_new: bool) -> str:
        """The mark of the source, a random text that the first import leaves there. ``is_new``: leaves one if there is
        none; otherwise returns one that is not stored."""
        new = secrets.token_hex(6)
        if is_new:
            await self.call("SET", self._mark, new, "NX")
        stored = await self.call("GET", self._mark)
        return stored.decode() if stored else new

    async def take(self, entries: Sequence[Entry], *, queue: str, now: float, token: str, mark: str) -> None:
        """Moves entries of one place to the import's own list, in one step, if they are still in that place."""
        place = entries[0].place
        at = self._layout.places[place]
        values = [word for entry in entries for word in (int(entry.is_renamed), entry.value)]
        keys = [self._list, self._hash, self._mark, at.key]
        await self.script(_TAKE, keys, at.order, place, queue, now, token, mark, *values)

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

    async def finish(self, batch: Batch, back: Sequence[Entry] = ()) -> None:
        """Ends a batch in one step: deletes it with the jobs of its entries, but for the entries that go ``back``,
        which are the next ones of their place again."""
        gone = set(back)
        jobs = [key for entry in batch.entries if entry not in gone for key in self._layout.job_keys(entry)]
        at = self._layout.places[batch.entries[0].place]
        keys: list[str | bytes] = [self._list, self._hash, at.key, *jobs]
        words = [word for entry in back for word in (_score(entry), entry.value)]
        await self.script(_FINISH, keys, batch.token, batch.moved, len(batch.entries), at.order, *words)

    async def close_import(self) -> None:
        """Deletes what the import keeps on the server, if no batch is left; the mark stays."""
        await self.script(_CLOSE, [self._list, self._hash])

    async def left_alone(self) -> dict[LeftAlone, int]:
        """How many entries the keys have that are left alone, for those that have any."""
        lengths = {place: await self._length(place) for place in self._layout.left_alone}
        return {place: length for place, length in lengths.items() if length}

    async def _length(self, place: LeftAlone) -> int:
        if await self._type(place.key) != _TYPES[place.kind]:
            return 0  # also for a wrong type, see wrong_types()
        match place.kind:
            case "zset":
                return int(await self.call("ZCARD", place.key))
            case "list":
                return int(await self.call("LLEN", place.key))
            case "rq-limits":
                limits = await self.call("SMEMBERS", place.key)
                return sum([await self.call("ZCARD", b"rq:rl:%b:rate_limited" % limit) for limit in limits])
            case _:
                start = place.key.removesuffix("active").encode()
                jobs = await self.call("LRANGE", place.key, 0, _ACTIVE - 1)
                names = [await self.call("HGET", start + job, "deid") for job in jobs]
                newer = [b"%bdn:%b" % (start, name) for name in names if name]
                return len(await self.script(_EXISTING, newer)) if newer else 0

    async def is_known(self) -> bool:
        """Whether the source is a queue of its system, perhaps an empty one, or was imported before."""
        places = [place.key for place in self._layout.places if not place.is_shared]
        keys = [self._mark, *self._layout.signs, *places]
        if await self.script(_EXISTING, keys):
            return True
        index = self._layout.index
        return (
            index is not None and await self._type(index[0]) == "set" and await self.call("SISMEMBER", *index)
        )

    async def queues(self) -> list[tuple[str, str]]:
        """Some queues of the same system on this server, with their prefixes."""
        pattern, name = self._layout.search
        names: set[tuple[str, str]] = set()
        cursor: bytes | int = 0
        for _ in range(_SCANS):
            cursor, keys = await self.call("SCAN", cursor, "MATCH", pattern, "COUNT", 1000)
            matches = [re.fullmatch(name, key.decode("utf-8", "backslashreplace"), re.DOTALL) for key in keys]
            for match in matches:
                if match and (self._layout.signs or await self._type(match[0]) == "list"):
                    groups = match.groupdict("")
                    names.add((groups["name"], groups.get("prefix", "")))
            if cursor in (0, b"0") or len(names) >= _NAMES:
                break
        return sorted(names)


def _score(entry: Entry) -> str:
    return "" if entry.score is None else repr(entry.score)
