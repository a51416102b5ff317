"""Starts of items: those that a server's append-only file has (no model, no client, and no process that was killed),
and those of random claims.

A start is a claim that was not given back before its app began. Its instant is that of the queue's clock, in ms.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq import Limit, ReliableQueue
from claimq.limits import rate_of
from claimq.model import Claim
from testkit.checkers.stored import StoredItem
from testkit.queues.clock import move_clock

Words = list[bytes]
MULTI, EXEC = b"MULTI", b"EXEC"


@dataclass(frozen=True)
class Starts:
    """All starts with their instants, how many claims were given back, most items in progress, of all and of a key, the
    most that they cost, of all ("queue"), of a client and of a key, and how often each item has left the queue at the
    end of a claim."""

    starts: Sequence[tuple[int, StoredItem]]
    given_back: int
    most_busy: int
    most_of_key: int
    most_cost: Mapping[str, int]
    ended: Mapping[str, int]

    @property
    def instants(self) -> list[int]:
        """Those of all starts, in their order."""
        return [at for at, _ in self.starts]

    def by_cost(self, per: str) -> dict[str, list[int]]:
        """Those of each client or key that there is, or of the queue, one for each unit of cost."""
        instants: dict[str, list[int]] = {}
        for at, item in self.starts:
            name = "" if per == "queue" else {"client": item.client.removeprefix("-"), "key": item.key}[per]
            if name or per == "queue":
                instants.setdefault(name, []).extend([at] * item.cost)
        return instants


def starts_of(folder: Path, queue: str) -> Starts:
    """The starts in the append-only file of a server that has stopped; it must not have been rewritten."""
    base = f"cq:{{{queue}}}:".encode()
    instants: dict[str, int] = {}
    starts: dict[str, tuple[int, StoredItem]] = {}
    held: dict[str, StoredItem] = {}
    gone: Counter[str] = Counter()
    given_back, most, most_of_key, most_cost = 0, 0, 0, Counter[str]()
    for step in _steps(folder):
        ended: list[tuple[str, StoredItem]] = []
        head: dict[str, StoredItem] = {}
        begun: dict[str, StoredItem] = {}
        kept: set[str] = set()
        for name, key, *rest in (words for words in step if len(words) > 2 and words[1].startswith(base)):
            part = key[len(base) :].partition(b":")[0]
            if name == b"ZADD" and part == b"claims":
                first, count, nonce, worker = rest[1].decode().split(" ", 3)
                numbers = range(int(first), int(first) + int(count))
                instants |= {f"{worker}/{number}.{nonce}": int(rest[0]) for number in numbers}
            elif name == b"HSET" and part == b"busy":
                for token, item in zip(
                    map(bytes.decode, rest[::2]), map(StoredItem.of, rest[1::2]), strict=True
                ):
                    held[token] = begun[token] = item
            elif name == b"HDEL" and part == b"busy":
                ended += [(token, held.pop(token)) for token in map(bytes.decode, rest) if token in held]
            else:
                items = [StoredItem.of(word) for word in rest if word.startswith(b"cq1")]
                kept |= {item.id for item in items if name != b"ZREM"}
                if name == b"RPUSH" and part in {b"main", b"high", b"low"}:
                    head |= {item.id: item for item in items}
        starts |= {token: (instants[token], item) for token, item in begun.items()}
        for token, item in ended:
            if item.id in head and head[item.id].meta.get("history") == item.meta.get("history"):
                given_back += 1
                del starts[token]
            gone[item.id] += item.id not in kept
        most = max(most, len(held))
        of_keys = Counter(item.key for item in held.values() if item.key)
        most_of_key = max(most_of_key, *of_keys.values(), 0)
        most_cost |= _costs(held.values())
    in_order = sorted(starts.values(), key=lambda start: start[0])
    return Starts(in_order, given_back, most, most_of_key, most_cost, +gone)


def _costs(held: Iterable[StoredItem]) -> Counter[str]:
    """What the items in progress cost, and those of the client and of the key that have most."""
    costs, most = Counter[tuple[str, str]](), Counter[str]()
    for item in held:
        names = ("queue", "-"), ("client", item.client.removeprefix("-")), ("key", item.key)
        costs.update({(per, name): item.cost for per, name in names if name})
    for (per, _), cost in costs.items():
        most[per] = max(most[per], cost)
    return most


def fullest(instants: Iterable[int], limit: Limit) -> float:
    """The most that any window has: its starts less those that the rate allows for its length, which the burst bounds.

    Each step adds a start, and takes away what the rate allows since the one before.
    """
    assert limit.rate is not None
    number, period = rate_of("rate", limit.rate)
    level, peak, before = 0, 0, 0
    for at in sorted(instants):
        level = max(0, level - (at - before) * number) + period
        peak, before = max(peak, level), at
    return peak / period


class RandomClaims:
    """Claims of these workers at random instants. ``held``: those in progress; ``choose``: what is random."""

    def __init__(self, *workers: ReliableQueue, seed: int | str = 7) -> None:
        self.choose = random.Random(seed)
        self.held: list[Claim] = []
        self._workers = workers
        self._starts: dict[str, Claim] = {}

    async def wait(self, *seconds: float) -> None:
        """Moves the clock by one of these."""
        await move_clock(self._workers[0], self.choose.choice(seconds))

    async def claim(self, most: int) -> None:
        """Claims 1 to ``most`` items."""
        self.note(await self.choose.choice(self._workers).claim(self.choose.randint(1, most), wait=0))

    def note(self, claims: Iterable[Claim]) -> None:
        """Notes claims that were made."""
        for claim in claims:
            self.held.append(claim)
            self._starts[claim.token] = claim

    def pop(self) -> Claim:
        """One that is in progress, to be ended."""
        return self.held.pop(self.choose.randrange(len(self.held)))

    async def unclaim(self, count: int = 1) -> None:
        """Gives so many back: they are no starts."""
        claims = [self.pop() for _ in range(count)]
        await self._workers[0].unclaim(claims)
        for claim in claims:
            del self._starts[claim.token]

    def instants(self, per: str, *, by_cost: bool = False) -> dict[str, list[int]]:
        """Those of the queue, or of each client or key; by cost one for each unit of it."""
        instants: dict[str, list[int]] = {}
        for claim in self._starts.values():
            name = getattr(claim.item, per, "") or ""
            at = round(claim.claimed_at * 1000)
            instants.setdefault(name, []).extend([at] * (claim.item.cost if by_cost else 1))
        return instants


def _steps(folder: Path) -> Iterator[list[Words]]:
    """The commands of each call, which are all carried out or none."""
    step: list[Words] = []
    in_step = False
    for words in _commands(folder):
        if words[0] in {MULTI, EXEC}:
            in_step = words[0] == MULTI
        else:
            step.append([words[0].upper(), *words[1:]])
        if not in_step and step:
            yield step
            step = []


def _commands(folder: Path) -> Iterator[Words]:
    (path,) = folder.rglob("*.incr.aof")
    with path.open("rb") as file:
        while head := file.readline():
            if head.startswith(b"*"):
                words = [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
                yield words
