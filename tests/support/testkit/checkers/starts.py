"""What a server's append-only file says of the starts of items: no model, no client, and no process that was killed.

A start is a claim that was not given back before its app began. Its instant is that of the queue's clock, in ms.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claimq import Limit
from claimq.limits import rate_of

Words = list[bytes]
MULTI, EXEC = b"MULTI", b"EXEC"


@dataclass(frozen=True)
class Starts:
    """The instants of all starts in their order, how many claims were given back, and most items in progress."""

    instants: Sequence[int]
    given_back: int
    most_busy: int


def starts_of(folder: Path, queue: str) -> Starts:
    """The starts in the append-only file of a server that has stopped; it must not have been rewritten."""
    base = f"cq:{{{queue}}}:".encode()
    instants: dict[str, int] = {}
    held: dict[str, bytes] = {}
    given_back, most = 0, 0
    for step in _steps(folder):
        ended: dict[str, bytes] = {}
        head: dict[bytes, bytes] = {}
        for name, key, *rest in (words for words in step if len(words) > 2 and words[1].startswith(base)):
            part = key[len(base) :].partition(b":")[0]
            if name == b"ZADD" and part == b"claims":
                first, count, nonce, worker = rest[1].decode().split(" ", 3)
                numbers = range(int(first), int(first) + int(count))
                instants |= {f"{worker}/{number}.{nonce}": int(rest[0]) for number in numbers}
            elif name == b"HSET" and part == b"busy":
                held |= {token.decode(): item for token, item in zip(rest[::2], rest[1::2], strict=True)}
            elif name == b"HDEL" and part == b"busy":
                ended |= {
                    token.decode(): held.pop(token.decode()) for token in rest if token.decode() in held
                }
            elif name == b"RPUSH" and part in {b"main", b"high", b"low"}:
                head |= {_id(item): item for item in rest}
        for token, item in ended.items():
            if _id(item) in head and _history(head[_id(item)]) == _history(item):
                given_back += 1
                del instants[token]
        most = max(most, len(held))
    return Starts(sorted(instants.values()), given_back, most)


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


def _id(envelope: bytes) -> bytes:
    return envelope.split(b" ", 2)[1] if envelope.startswith(b"cq1") else envelope


def _history(envelope: bytes) -> Any:
    """The lines of an item's history: a give-back with a reason adds one."""
    meta = envelope.partition(b"\n")[0].split(b" ", 4)[-1]
    return json.loads(meta).get("history", []) if meta.startswith(b"{") else []
