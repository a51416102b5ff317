"""What producers and workers wrote down about each item, and how often a promise about items was broken. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from claimq.tokens import number_of

_JUMP = 1000
"""Token numbers that are further apart than this lie on both sides of a loss of data."""


@dataclass(frozen=True)
class Line:
    """One line of a log. ``what``: stored (an enqueue has returned), claimed, began, ended (of a handler) or done (the
    verdict is stored). ``at``: seconds of the machine's monotonic clock."""

    process: str
    at: float
    what: str
    item: str
    token: str = ""
    is_first: bool = False
    """Of a claim: the item shows no sign of an earlier one."""


@dataclass(frozen=True)
class Account:
    """Numbers of items. ``lost``: stored, and neither handled nor in the queue. ``repeated``: delivered again after
    their done was stored. ``overlapping``: two handlers ran at once. ``out_of_order``: claimed for the first time after
    a later item of the same producer. ``left``: still in the queue in the end."""

    stored: int
    lost: int
    repeated: int
    overlapping: int
    out_of_order: int
    left: int


def account(lines: Iterable[Line], left: Sequence[str], ended_at: Mapping[str, float]) -> Account:
    """Counts. ``left``: the items in the queue in the end. ``ended_at``: killed process -> when it ended."""
    by_item: defaultdict[str, list[Line]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: line.at):
        by_item[line.item].append(line)
    stored = {item for item, own in by_item.items() if any(line.what == "stored" for line in own)}
    handled = {item for item, own in by_item.items() if any(line.what in ("ended", "done") for line in own)}
    return Account(
        len(stored),
        len(stored - handled - {*left}),
        sum(_is_repeated(own) for own in by_item.values()),
        sum(_overlaps(own, ended_at) for own in by_item.values()),
        _out_of_order(by_item),
        len(left),
    )


def _is_repeated(own: Sequence[Line]) -> bool:
    done = [number_of(line.token) for line in own if line.what == "done"]
    return (
        any(line.what == "claimed" and number_of(line.token) > min(done) for line in own) if done else False
    )


def _overlaps(own: Sequence[Line], ended_at: Mapping[str, float]) -> bool:
    """Whether a handler of the item began before another one had ended, or its process was killed."""
    spans = list[tuple[float, float]]()
    for line in own:
        if line.what != "began":
            continue
        ends = [
            one.at
            for one in own
            if one.what == "ended" and (one.process, one.token) == (line.process, line.token)
        ]
        spans.append((line.at, min([*ends, ended_at.get(line.process, float("inf"))])))
    return any(later[0] < earlier[1] for earlier, later in pairwise(sorted(spans)))


def _out_of_order(by_item: Mapping[str, Sequence[Line]]) -> int:
    """Items whose first claim came after one of a later item, less the claims that no process has seen: their items
    came back to the head without a trace, so a later claim of them is not the first."""
    numbers = sorted(
        {number_of(line.token) for own in by_item.values() for line in own if line.what == "claimed"}
    )
    unseen = sum(gap - 1 for gap in (b - a for a, b in pairwise(numbers)) if gap < _JUMP)
    firsts: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for item, own in by_item.items():
        claims = [line for line in own if line.what == "claimed"]
        if claims and claims[0].is_first:
            producer, _, place = item.rpartition("-")
            firsts[producer].append((int(place), number_of(claims[0].token)))
    overtaken = 0
    for order in firsts.values():
        latest = 0
        for _, token in sorted(order):
            overtaken += token < latest
            latest = max(latest, token)
    return max(0, overtaken - unseen)
