"""What processes wrote down of their calls while they were killed, and whether a correct queue can have done that.

Pure: it reads events and a final audit, and decides. A process writes `begin` before a call and `end` after it, so
that what a killed process did not live to write is known to be unknown. An item is named by its payload.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MOMENT = 1.5
"""Seconds after the first call that reaches a server in which leases may count as begun before it: one, by its clock,
and a margin."""
ENDING = {"done", "requeued", "delayed", "failed", "dropped", "unclaimed"}
"""Verdicts after which a claim is over."""


@dataclass(frozen=True)
class Event:
    """One line. `at`: seconds of the machine's monotonic clock.

    A row is (item,) for enqueue; (item, token, requeue count) at the end of a claim; (item, token), and at the end
    (item, token, verdict), for verdicts; the same for a reaper's `expired`.
    """

    process: str
    at: float
    op: str
    phase: str
    rows: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True)
class Kill:
    """A SIGKILL of a process, a drain that SIGTERM began, or another fault. `kind`: the server's is "server".

    `process`: which one should be in the middle of something for a hit: a life (`a1#2`), all lives of one (`a1`), or
    any (nothing).
    """

    kind: str
    process: str
    at: float
    back: float = 0.0
    """Of the server: when it had answered a call about the queue again."""
    drained: str = ""
    """Of a drain: the sidecar as its tokens name it, with its life (`s1.2`)."""
    came_in_the_middle: bool | None = None
    """Whether it is a hit; None: as the events say."""
    with_items: bool = False
    """Whether a hit needs items in progress. Otherwise a call is enough, also one that waits for items."""


@dataclass
class Audit:
    """What the server had in the end: `failed` maps an item to its requeue count; `remaining` are all others."""

    failed: Sequence[tuple[str, int]] = ()
    remaining: Sequence[str] = ()
    counters: dict[str, int] = field(default_factory=dict[str, int])


@dataclass
class Finding:
    """`verdict`: valid, invalid (the queue broke a promise) or unknown (it proves too little); both are failures."""

    verdict: str
    problems: list[str]
    hits: Counter[str]
    counts: Counter[str]


class History:
    """The events of one run, sorted out."""

    def __init__(
        self, events: Iterable[Event], audit: Audit, *, requeue_limit: int, kills: Sequence[Kill] = ()
    ) -> None:
        """`events` of one process must be in its order."""
        self.kills = kills
        self.asked_at: dict[str, float] = {}
        self.workers: dict[int, str] = {}
        self.spans: dict[int, tuple[float, float]] = {}
        self.events = list(events)
        self.audit = audit
        self.limit = requeue_limit
        self.begun: set[str] = set()
        self.stored: set[str] = set()
        self.claims: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self.items: defaultdict[int, set[str]] = defaultdict(set)
        self.verdicts: defaultdict[int, list[str]] = defaultdict(list)
        self.tried: defaultdict[str, set[int]] = defaultdict(set)
        self.tried_unclaim: set[int] = set()
        self._spans: dict[bool, dict[str, list[tuple[float, float]]]] = {}
        self.backwards: list[str] = []
        last: Counter[str] = Counter()
        for event in self.events:
            if event.op == "enqueue":
                (self.begun if event.phase == "begin" else self.stored).update(row[0] for row in event.rows)
            elif event.op == "claim" and event.phase == "begin":
                self.asked_at[event.process] = event.at
            elif event.op == "claim" and event.phase == "end":
                self._note_claims(event, last)
            elif event.phase == "end":
                self._note_verdicts(event)
            elif event.op in {"done", "unclaim"}:
                for item, token in event.rows:
                    if event.op == "done":
                        self.tried[item].add(number(token))
                    else:
                        self.tried_unclaim.add(number(token))

    def _note_claims(self, event: Event, last: Counter[str]) -> None:
        for item, token, requeues in event.rows:
            if number(token) <= last[event.process]:
                self.backwards.append(f"{event.process} was given {token} after claim {last[event.process]}")
            last[event.process] = number(token)
            self.spans[number(token)] = (self.asked_at.get(event.process, event.at), event.at)
            self.workers[number(token)] = token.rpartition("/")[0]
            self.items[number(token)].add(item)
            self.claims[item].append((number(token), requeues))

    def _note_verdicts(self, event: Event) -> None:
        for _, token, verdict in event.rows:
            if verdict in ENDING:
                self.verdicts[number(token)].append(verdict)

    def done(self, item: str) -> list[int]:
        """The claims of an item that are known to be done."""
        return [one for one, _ in self.claims.get(item, []) if "done" in self.verdicts[one]]

    def problems(self) -> list[str]:
        """Every promise that was broken."""
        return [
            *self.backwards,
            *self._invented(),
            *self._lost(),
            *self._ends(),
            *self._fencing(),
            *self._counts(),
        ]

    def _invented(self) -> Iterator[str]:
        seen = {*self.claims, *(item for item, _ in self.audit.failed), *self.audit.remaining}
        yield from (f"{item} was never enqueued" for item in sorted(seen - self.begun))
        for one, items in self.items.items():
            if len(items) > 1:
                yield f"claim {one} was given to {sorted(items)}"

    def _lost(self) -> Iterator[str]:
        here = {item for item, _ in self.audit.failed} | set(self.audit.remaining)
        for item in sorted(self.stored - here):
            dropped = any("dropped" in self.verdicts[one] for one, _ in self.claims.get(item, []))
            if not self.tried.get(item) and not dropped:
                yield f"{item} was stored, and is lost"

    def _ends(self) -> Iterator[str]:
        here = Counter([*(item for item, _ in self.audit.failed), *self.audit.remaining])
        for item in sorted(self.begun):
            ends = [f"done by claim {one}" for one in self.done(item)] + ["in the queue"] * here[item]
            if len(ends) > 1:
                yield f"{item} ended more than once: {ends}"

    def _fencing(self) -> Iterator[str]:
        for one, verdicts in sorted(self.verdicts.items()):
            if len(verdicts) > 1:
                yield f"claim {one} ended more than once: {verdicts}"
        for item, claims in sorted(self.claims.items()):
            latest = max(one for one, _ in claims)
            for one in self.done(item):
                if one < latest:
                    yield f"{item} was done by claim {one}, and claimed again by {latest}"

    def _counts(self) -> Iterator[str]:
        for item, claims in sorted(self.claims.items()):
            uncounted: list[list[str]] = [[], ["unclaimed"]]
            free = {one for one, _ in claims if one in self.tried_unclaim and self.verdicts[one] in uncounted}
            order = sorted(one for one, _ in claims)
            ends = [self.spans[later][1] for later in order[1:]] + [float("inf")]
            for one, end in zip(order, ends, strict=True):
                if self._is_outlived(one, end) or self._is_drained(one, end):
                    free.add(one)
            if len(claims) - len(free) > self.limit + 1:
                yield f"{item} was delivered {len(claims) - len(free)} times, with a requeue limit of {self.limit}"
            requeues = [requeued for _, requeued in sorted(claims)]
            if requeues != sorted(requeues) or max(requeues) > self.limit:
                yield f"the requeue counts of {item} were {requeues}"
        for item, had in self.audit.failed:
            if had != self.limit:
                yield f"{item} failed with {had} requeues, and the limit is {self.limit}"
        yield from self._conservation()

    def _is_outlived(self, claim: int, end: float) -> bool:
        """Whether a claim may have begun before the server was another process: then its lease ends uncounted.

        `end`: when the item's next claim was known.
        """
        begin = self.spans[claim][0] - MOMENT
        return any(kill.kind == "server" and begin <= kill.back and kill.at <= end for kill in self.kills)

    def _is_drained(self, claim: int, end: float) -> bool:
        """Whether a drain may have given a claim back, uncounted: no other end of it is known, it may have been in
        progress when the drain began, and the drained sidecar made it, or took it over from an earlier life.
        """
        name, _, life = self.workers[claim].rpartition(".")
        return not self.verdicts[claim] and any(
            kill.at <= end and drained == name and int(life) <= int(last)
            for kill in self.kills
            for drained, _, last in [kill.drained.rpartition(".")]
            if kill.drained
        )

    def _conservation(self) -> Iterator[str]:
        counted = self.audit.counters
        here = len(self.audit.failed) + len(self.audit.remaining)
        if counted["enqueued"] != counted["done"] + counted.get("dropped", 0) + here:
            yield f"{counted['enqueued']} came, {counted['done']} were done, and {here} are here"
        if not len(self.stored) <= counted["enqueued"] <= len(self.begun):
            yield f"{counted['enqueued']} are counted as enqueued; {len(self.stored)} to {len(self.begun)} were"
        known = sum(verdicts.count("done") for verdicts in self.verdicts.values())
        if not known <= counted["done"] <= known + sum(map(len, self.tried.values())):
            yield f"{counted['done']} are counted as done, and {known} are known to be"

    def is_hit(self, kill: Kill) -> bool:
        """Whether a kill came in the middle: a call was under way, or (a worker's) claims were in progress."""
        if kill.came_in_the_middle is not None:
            return kill.came_in_the_middle
        return any(
            begin <= kill.at <= end
            for process, spans in self._in_the_middle(kill.with_items).items()
            for begin, end in spans
            if kill.process in {"", process, process.partition("#")[0]}
        )

    def _in_the_middle(self, with_items: bool) -> dict[str, list[tuple[float, float]]]:
        """For each process when it was in a call or had claims in progress: from a line to the next, or forever."""
        if with_items not in self._spans:
            own: defaultdict[str, list[Event]] = defaultdict(list)
            for event in self.events:
                own[event.process].append(event)
            is_busy = has_items if with_items else is_in_a_call
            self._spans[with_items] = {
                process: [
                    (event.at, later.at if later else float("inf"))
                    for event, later, busy in zip(events, [*events[1:], None], is_busy(events), strict=True)
                    if busy
                ]
                for process, events in own.items()
            }
        return self._spans[with_items]


def is_in_a_call(events: Sequence[Event]) -> Iterator[bool]:
    """For each event of a process whether it is in a call after it, or has just claimed something."""
    return (event.phase == "begin" or (event.op == "claim" and bool(event.rows)) for event in events)


def has_items(events: Sequence[Event]) -> Iterator[bool]:
    """For each event of a process whether it has items without a verdict after it, or a verdict in a call."""
    held: set[str] = set()
    for event in events:
        tokens = {row[1] for row in event.rows if len(row) > 1}
        held = held | tokens if event.op == "claim" else held - tokens
        yield bool(held) or (event.phase == "begin" and bool(tokens))


def hits_of(kills: Iterable[Kill], history: History) -> Counter[str]:
    """How many kills of each kind came in the middle of something."""
    return Counter(kill.kind for kill in kills if history.is_hit(kill))


def check(
    events: Iterable[Event],
    audit: Audit,
    kills: Sequence[Kill],
    *,
    requeue_limit: int,
    least_hits: dict[str, int],
    least_items: int,
) -> Finding:
    """Decides. `least_hits`: how many kills of a kind must have come in the middle of something for a run to count."""
    history = History(events, audit, requeue_limit=requeue_limit, kills=kills)
    hits = hits_of(kills, history)
    counts = Counter(
        {
            "items": len(history.begun), "stored": len(history.stored), "claims": len(history.items),
            "done": sum(map(len, map(history.done, list(history.claims)))), "failed": len(audit.failed),
            "claimed again": sum(len(claims) > 1 for claims in history.claims.values()),
        }
    )  # fmt: skip
    problems = history.problems()
    if problems:
        return Finding("invalid", problems, hits, counts)
    uncertain = [
        f"{kind} was hit {hits[kind]} times, not {least}"
        for kind, least in least_hits.items()
        if hits[kind] < least
    ]
    if counts["stored"] < least_items:
        uncertain.append(f"{counts['stored']} items were stored, not {least_items}")
    if audit.remaining:
        uncertain.append(f"{len(audit.remaining)} items remain")
    return Finding("unknown" if uncertain else "valid", uncertain, hits, counts)


def number(token: str) -> int:
    """The number in a token; it grows with every claim of the queue."""
    return int(token.rpartition("/")[2].partition(".")[0])
