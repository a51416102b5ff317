"""All that a server holds of one queue, read key by key without the library, and whether it fits together."""

import json
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, cast

import redis

from claimq import COUNTERS

HEADER = re.compile(rb"cq1([ !])(\S+) (\d+) (\S+) ([^\n]*)\n", re.DOTALL)
READERS: dict[str, tuple[str | int, ...]] = {
    "list": ("LRANGE", 0, -1),
    "zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    "hash": ("HGETALL",),
}
LEVELS = {"high": "high", "main": "normal", "low": "low"}
"""The first word of a list's key -> the priority of its items."""
RANKS = {priority: rank for rank, priority in enumerate(LEVELS.values())}
_BOOKKEEPING = {
    "seq", "clock_offset", "seen_at", "grace_until", "grace_from", "client_items", "repair_call",
    "number", "server", "server_since", "largest", "incarnation", "policy_remove", "policy_remove_all",
    "policy_requeue", "bound", "limits", "limits_waiter", "levels", "keys", "repair_held", "repair_bytes",
    "longest", "turns", "repair_share", "reserve", "mean_cost", "repair_starts",
}  # fmt: skip
"""What stats holds besides the counters."""
LAST_MS = 8 * 10**12
"""Scores of delayed above it are places of items that wait for their keys, not instants."""


@dataclass(frozen=True)
class StoredItem:
    """An envelope taken apart. `at`: ms; `meta`: the header's JSON; a bare payload has no id."""

    id: str
    at: int
    client: str
    meta: dict[str, Any]
    payload: bytes
    is_marked: bool
    size: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """Those that its producer gave."""
        return dict(self.meta.get("options", {}))

    @property
    def priority(self) -> str:
        return str(self.options.get("priority", "normal"))

    @property
    def key(self) -> str:
        return str(self.options.get("key", ""))

    @property
    def cost(self) -> int:
        return int(self.options.get("cost", 1))

    @classmethod
    def of(cls, raw: bytes) -> "StoredItem":
        found = HEADER.match(raw)
        if not found:
            return cls("", 0, "-", {}, raw, False)
        mark, own_id, at, client, meta = found.groups()
        fields: dict[str, Any] = {} if meta == b"-" else json.loads(meta)
        return cls(
            own_id.decode(), int(at), client.decode(), fields, raw[found.end() :], mark == b"!", len(raw)
        )


@dataclass
class Stored:
    """A queue's keys. Lists run oldest first and the ring next first; instants are ms."""

    lists: dict[str, list[StoredItem]] = field(default_factory=dict[str, list[StoredItem]])
    passed: dict[str, str] = field(default_factory=dict[str, str])
    """How many items of a client were claimed while others of a lower priority waited."""
    keys: dict[str, str] = field(default_factory=dict[str, str])
    """Keys of items -> the claims that have taken each."""
    held: list[str] = field(default_factory=list[str])
    """"KEY PLACE" of the items in delayed that wait for their keys, and " KEY" of keys whose next one goes later."""
    ring: list[str] = field(default_factory=list[str])
    heads: dict[str, float] = field(default_factory=dict[str, float])
    delayed: list[tuple[float, StoredItem]] = field(default_factory=list[tuple[float, StoredItem]])
    delayed_clients: dict[str, str] = field(default_factory=dict[str, str])
    """How many items of a client are in delayed."""
    weights: dict[str, str] = field(default_factory=dict[str, str])
    starts: dict[str, str] = field(default_factory=dict[str, str])
    limited: dict[str, float] = field(default_factory=dict[str, float])
    pauses: dict[str, str] = field(default_factory=dict[str, str])
    in_progress: dict[str, str] = field(default_factory=dict[str, str])
    shares: dict[str, int] = field(default_factory=dict[str, int])
    """Processing time of clients, and how many of their items are in progress."""
    slots: dict[str, str] = field(default_factory=dict[str, str])
    turns: dict[str, str] = field(default_factory=dict[str, str])
    """Nonces of claim calls -> the clients of their items."""
    busy: dict[str, StoredItem] = field(default_factory=dict[str, StoredItem])
    holders: dict[str, str] = field(default_factory=dict[str, str])
    leases: dict[str, float] = field(default_factory=dict[str, float])
    claims: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    workers: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, float] = field(default_factory=dict[str, float])
    failed_items: dict[str, StoredItem] = field(default_factory=dict[str, StoredItem])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    config: dict[str, str] = field(default_factory=dict[str, str])
    stats: dict[str, str] = field(default_factory=dict[str, str])
    ids: dict[str, float] = field(default_factory=dict[str, float])
    removed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Reason and id of what was removed without having been done, oldest first."""
    audit: list[str] = field(default_factory=list[str])
    added: list[str] = field(default_factory=list[str])
    wake: int = 0
    strange: list[str] = field(default_factory=list[str])

    @property
    def tokens(self) -> dict[str, float]:
        """The leases of claims; one entry of the set never ends and is none."""
        return {token: end for token, end in self.leases.items() if end != float("inf")}

    def number(self, name: str) -> int:
        """A field of stats that is a whole number; 0 when it is not there."""
        return int(self.stats.get(name, 0))


def read_queue(client: "redis.Redis", name: str) -> Stored:
    """Reads every key of a queue. The server must be quiet in between: this is not one step."""
    base = f"cq:{{{name}}}:"
    pattern = base.replace("{", r"\{").replace("}", r"\}") + "*"
    keys = sorted(cast("list[bytes]", client.execute_command("KEYS", pattern)))
    pipe = client.pipeline(transaction=False)
    for key in keys:
        pipe.execute_command("TYPE", key)
    types = [kind.decode() for kind in pipe.execute()] if keys else []
    for key, kind in zip(keys, types, strict=True):
        command, *rest = READERS[kind]
        pipe.execute_command(str(command), key, *rest)
    values = pipe.execute() if keys else []
    stored = Stored()
    for key, kind, value in zip(keys, types, values, strict=True):
        _put(stored, key.decode()[len(base) :], kind, value)
    return stored


def _put(stored: Stored, part: str, kind: str, value: Any) -> None:
    first, _, rest = part.partition(":")
    if first in LEVELS and kind == "list":
        items = [StoredItem.of(raw) for raw in reversed(value)]
        stored.strange += [f"{part} ({item.id})" for item in items if item.priority != LEVELS[first]]
        listed = [*stored.lists.get(rest or "-", []), *items]
        stored.lists[rest or "-"] = sorted(listed, key=lambda item: RANKS[item.priority])
    elif first == "busy" and kind == "hash":
        for token, raw in value.items():
            stored.busy[token.decode()] = StoredItem.of(raw)
            stored.holders[token.decode()] = rest
    elif part in PARTS and PARTS[part][0] == kind:
        _, name, read = PARTS[part]
        setattr(stored, name, read(value))
    elif first != "calls" or kind != "hash":
        stored.strange.append(f"{part} ({kind})")


def _calls(value: Any) -> list[tuple[float, str]]:
    calls = sorted((int(raw.split()[0]), float(at), raw.decode()) for raw, at in value)
    return [(at, call) for _, at, call in calls]


def _removed(raw: bytes) -> tuple[str, str]:
    _, reason, _, envelope = raw.split(b" ", 3)
    return reason.decode(), StoredItem.of(envelope).id


def _scores(value: Any) -> dict[str, float]:
    return {raw.decode(): float(score) for raw, score in value}


def _each(read: Callable[[bytes], Any]) -> Callable[[Any], dict[str, Any]]:
    return lambda value: {name.decode(): read(raw) for name, raw in value.items()}


_texts = _each(lambda raw: raw.decode(errors="backslashreplace"))  # levels of rates are binary


PARTS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "clients": ("zset", "ring", lambda value: [raw.decode() for raw, _ in value]),
    "delayed": ("zset", "delayed", lambda value: [(float(at), StoredItem.of(raw)) for raw, at in value]),
    "claims": ("zset", "claims", _calls),
    "failed:items": ("hash", "failed_items", _each(StoredItem.of)),
    "wake": ("list", "wake", len),
    "audit": ("list", "audit", lambda value: [raw.decode() for raw in reversed(value)]),
    "added": ("list", "added", lambda value: [raw.decode() for raw in reversed(value)]),
    "removed": ("list", "removed", lambda value: [_removed(raw) for raw in reversed(value)]),
    **{name: ("zset", name, _scores) for name in ("heads", "leases", "workers", "failed", "ids", "limited")},
    "delayed:clients": ("hash", "delayed_clients", _texts),
    "bytes": ("hash", "weights", _texts),
    "starts": ("hash", "starts", _texts),
    "in_progress": ("hash", "in_progress", _texts),
    "shares": ("hash", "shares", _each(lambda share: int(struct.unpack("<4qdq", share)[2]))),
    "slots": ("hash", "slots", _texts),
    "turns": ("hash", "turns", _texts),
    "levels": ("hash", "passed", _texts),
    "keys": ("hash", "keys", _texts),
    "pauses": ("hash", "pauses", _texts),
    "held": ("zset", "held", lambda value: [raw.decode() for raw, _ in value]),
    "failed:reasons": ("hash", "reasons", _texts),
    **{name: ("hash", name, _texts) for name in ("config", "stats")},
}
"""A key's part -> its type, the field of Stored, and how it is read."""


def inconsistencies(stored: Stored) -> list[str]:
    """What does not fit together, as sentences; none for a queue in order. Whether it holds the right items is open."""
    return [
        *(f"a key that is none of a queue's: {part}" for part in stored.strange),
        *_wrong_claims(stored),
        *_wrong_turns(stored),
        *_wrong_shares(stored),
        *_wrong_in_progress(stored),
        *_wrong_counts(stored),
        *_wrong_weights(stored),
        *_wrong_levels(stored),
        *_wrong_keys(stored),
        *_wrong_failed(stored),
        *_wrong_marks(stored),
        *_wrong_totals(stored),
    ]


def _wrong_shares(stored: Stored) -> Iterator[str]:
    """What a client had claimed while it had the queue for itself is not counted."""
    nonces = {call.split(" ")[2] for _, call in stored.claims}
    clients = dict[str, list[str]]()
    for nonce, text in stored.turns.items():
        numbers, _, rest = text.partition("\n")
        _, count, width = map(int, numbers.split(" "))
        places = [int(rest[at * width : (at + 1) * width] or "0") for at in range(count)]
        names = rest[count * width :]
        words, clients[nonce] = names.split(" ")[1:], [names[place:].split(" ")[1] for place in places]
        if nonce in nonces and [str(Counter(clients[nonce])[name]) for name in words[::2]] != words[1::2]:
            yield f"the claim {nonce} counts {words}, and has the items of {clients[nonce]}"
    busy: Counter[str] = Counter()
    for token, item in stored.busy.items():
        if (nonce := token.rpartition(".")[2]) in clients:
            busy[item.client or "-"] += 1
    if wrong := {
        client: (count, busy[client]) for client, count in stored.shares.items() if count != busy[client]
    }:
        yield f"items of clients in progress are counted as the first, and are the second: {wrong}"


def _wrong_in_progress(stored: Stored) -> Iterator[str]:
    """The sums for bounds that hold, while nothing is being counted."""
    counted = re.match(r".\|[01]\+? \d+ (.* busy .*)", stored.stats.get("limits", ""))
    if not counted:
        return
    bounds = set(re.findall(r" (\w+ busy) \d+( cost)?", counted[1]))
    sums: Counter[str] = Counter()
    for item in stored.busy.values():
        of_client = item.client != "-"
        sums[item.client] += ("client busy", "") in bounds and of_client
        sums[f"cost {item.client}"] += item.cost if ("client busy", " cost") in bounds and of_client else 0
        sums["cost -"] += item.cost if ("queue busy", " cost") in bounds else 0
    if stored.in_progress != {field: str(number) for field, number in sums.items() if number}:
        yield f"items in progress are counted as {stored.in_progress}, and are {dict(+sums)}"


def _wrong_claims(stored: Stored) -> Iterator[str]:
    held, leased = set(stored.busy), set(stored.tokens)
    if held != leased:
        yield f"items without a lease {held - leased}, leases without an item {leased - held}"
    for token, holder in stored.holders.items():
        if token.rpartition("/")[0] != holder:
            yield f"the claim {token} is in the hash of {holder}"
    if stored.tokens and len(stored.leases) != len(stored.tokens) + 1:
        yield f"leases has {len(stored.leases) - len(stored.tokens)} entries that never end, not 1"
    logged: Counter[str] = Counter()
    last, before = 0, 0.0
    for at, call in stored.claims:
        first, count, nonce, worker = call.split(" ", 3)
        if int(first) <= last or at < before:
            yield f"the log of claim calls runs backwards at {call!r}"
        last, before = int(first) + int(count) - 1, at
        logged.update(f"{worker}/{number}.{nonce}" for number in range(int(first), last + 1))
    if missing := [token for token in stored.busy if logged[token] != 1]:
        yield f"claims that the log does not name once: {missing}"
    if last > stored.number("number"):
        yield f"claim {last} was made, and the last number is {stored.number('number')}"


def _wrong_turns(stored: Stored) -> Iterator[str]:
    clients = [client for client in stored.ring if client != "-"]
    having = {client: items for client, items in stored.lists.items() if client != "-"}
    if sorted(clients) != sorted(having):
        yield f"the ring has {sorted(clients)}, and items have {sorted(having)}"
    oldest = {client: min(level[0].at for level in _levels(items)) for client, items in having.items()}
    if oldest != stored.heads:
        yield f"heads says {stored.heads}, and the oldest are {oldest}"
    if sum(map(len, having.values())) != stored.number("client_items"):
        yield f"client_items is {stored.stats.get('client_items')}, and there are {sum(map(len, having.values()))}"
    if "-" in stored.ring and not stored.lists.get("-"):
        yield "main has a turn in the ring, and no items"
    for client, items in stored.lists.items():
        if wrong := [item.id for item in items if item.client != client]:
            yield f"the list of {client} has items of others: {wrong}"
    if stored.wake > 1:
        yield f"there are {stored.wake} wake tokens"


def _wrong_counts(stored: Stored) -> Iterator[str]:
    delayed = Counter(item.client for _, item in stored.delayed if item.client != "-")
    if stored.delayed_clients != {client: str(count) for client, count in delayed.items()}:
        yield f"delayed is counted as {stored.delayed_clients}, and has {dict(delayed)}"


def _wrong_weights(stored: Stored) -> Iterator[str]:
    bound = stored.stats.get("bound", "").split()
    if len(bound) != 6:
        if stored.weights:
            yield f"bytes are counted for clients without a bound: {stored.weights}"
        return
    weights: dict[str, list[int]] = {}
    waiting = [(0, item) for items in stored.lists.values() for item in items]
    for place, item in [*waiting, *((2, item) for _, item in stored.delayed)]:
        if item.id and item.at >= int(bound[4]):
            for counts in (weights.setdefault(name, [0, 0, 0, 0]) for name in {item.client, ""}):
                counts[place : place + 2] = [counts[place] + 1, counts[place + 1] + item.size]
    texts = {client: " ".join(map(str, counts)) for client, counts in weights.items()}
    if " ".join(bound[:4]) != (everything := texts.pop("", "0 0 0 0")):
        yield f"what waits is counted as {bound}, and is {everything}"
    texts.pop("-", None)
    if texts != stored.weights:
        yield f"what waits of clients is counted as {stored.weights}, and is {texts}"


def _wrong_levels(stored: Stored) -> Iterator[str]:
    for client, items in stored.lists.items():
        for level in _levels(items):
            places = [int(item.meta.get("place", 10**16)) for item in level]
            if places != sorted(places):
                yield f"the items of {client} that were given back stand at {places}"
    if gone := stored.passed.keys() - stored.lists.keys() - {"-"}:
        yield f"levels has clients without items: {gone}"
    if any(item.priority != "normal" for items in stored.lists.values() for item in items) and (
        "-" not in stored.passed or stored.stats.get("levels") != "1"
    ):
        yield "items have priorities, and calls do not know that"


def _wrong_keys(stored: Stored) -> Iterator[str]:
    held = [(item.key, f"{item.key} {int(at):016}") for at, item in stored.delayed if at > LAST_MS]
    left = {entry[1:] for entry in stored.held if entry.startswith(" ")}
    gates = [entry for entry in stored.held if entry.count(" ") == 2]
    retried = {(item.key, int(at)) for at, item in stored.delayed}
    if lost := [entry for entry in gates if (entry.split()[0], int(entry.split()[2])) not in retried]:
        yield f"items wait behind others that do not wait: {lost}"
    if sorted(stored.held) != sorted([*(entry for _, entry in held), *(f" {key}" for key in left), *gates]):
        yield f"held has {stored.held}, and the items that wait for their keys are {held}"
    others = {item.key for items in [*stored.lists.values(), stored.busy.values()] for item in items}
    others |= left | stored.limited.keys() | {part.removeprefix("key ") for part in stored.pauses}
    others |= {entry.split()[0] for entry in gates}
    are_let_go = re.match(r"1 \d+ \+", stored.stats.get("keys", ""))  # all of them, by the next claims
    if (stuck := {key for key, _ in held} - others) and not are_let_go:
        yield f"items wait for keys that no other item has: {stuck}"


def _levels(items: list[StoredItem]) -> list[list[StoredItem]]:
    return [list(level) for _, level in groupby(items, key=lambda item: item.priority)]


def _wrong_failed(stored: Stored) -> Iterator[str]:
    if set(stored.failed) != set(stored.failed_items):
        yield f"failed has {sorted(stored.failed)}, and its items are {sorted(stored.failed_items)}"
    for name, item in stored.failed_items.items():
        if name.partition("#")[0] != item.id.partition("#")[0]:
            yield f"the failed item {item.id} is kept as {name}"
    reasons = Counter(item.meta.get("reason") for item in stored.failed_items.values())
    if {reason: str(number) for reason, number in reasons.items()} != stored.reasons:
        yield f"failed:reasons has {stored.reasons}, and the items have {reasons}"
    elsewhere = [*(item for items in stored.lists.values() for item in items), *stored.busy.values()]
    if still := [item.id for item in elsewhere if "reason" in item.meta]:
        yield f"items that are not failed have the reason of a failed one: {still}"


def _wrong_totals(stored: Stored) -> Iterator[str]:
    if more := stored.stats.keys() - _BOOKKEEPING - set(COUNTERS):
        yield f"stats has {sorted(more)}, which are neither among the counters nor known as bookkeeping"


def _wrong_marks(stored: Stored) -> Iterator[str]:
    everywhere = [item for items in stored.lists.values() for item in items]
    everywhere += [item for _, item in stored.delayed]
    everywhere += [*stored.busy.values(), *stored.failed_items.values()]
    for item in everywhere:
        if item.is_marked != (item.meta.get("crashes", 0) > 0):
            yield f"the item {item.id} is marked {item.is_marked} and has crashed {item.meta.get('crashes', 0)} workers"
