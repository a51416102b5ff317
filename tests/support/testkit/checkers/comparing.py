"""The plain model against what the server holds: what differs, as sentences."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import ceil

from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import ModelItem
from testkit.checkers.stored import Stored, StoredItem

IN_QUEUE = ("main", "busy", "delayed", "failed")
LEAVING = ("done", "dropped", "failed_removed", "flushed")
UNCOUNTED = {"lost", "repaired"}
"""Not part of what becomes of items: refused calls and mended keys."""


def differences(model: QueueModel, stored: Stored, pushed: int) -> list[str]:
    """What the server holds otherwise than the model. `pushed`: how many bare payloads were ever pushed.

    The order of items that different calls delayed to the same ms is the server's to choose; the model takes it over.
    """
    return [
        *_lists(model, stored),
        *_delayed(model, stored),
        *_busy(model, stored),
        *_failed(model, stored),
        *_removed(model, stored),
        *_rest(model, stored),
        *_conservation(stored, pushed),
    ]


def _items(where: str, mine: Sequence[ModelItem], theirs: Sequence[StoredItem]) -> Iterator[str]:
    if len(mine) != len(theirs):
        yield f"{where}: expected {[item.id for item in mine]}, stored {[item.id for item in theirs]}"
        return
    for item, stored in zip(mine, theirs, strict=True):
        if found := item.differs(stored):
            yield f"{where}: {found}"


def _lists(model: QueueModel, stored: Stored) -> Iterator[str]:
    for client in {**model.lists, **stored.lists}:
        yield from _items(
            f"the list of {client}", list(model.lists.get(client, ())), stored.lists.get(client, [])
        )
    passed = {client: count % 64 for client, count in model.passed.items() if count % 64}
    counted = {client: int(count) for client, count in stored.passed.items() if int(count)}
    if passed != counted:
        yield f"items of lower priorities: expected {passed}, stored {counted}"
    if not model.has_exact_turns:
        model.may_have_parked = True
    if model.may_have_parked and {*model.ring, "-"} == {*stored.ring, "-"}:
        model.ring = stored.ring
    if model.ring != stored.ring:
        yield f"the ring: expected {model.ring}, stored {stored.ring}"


def _delayed(model: QueueModel, stored: Stored) -> Iterator[str]:
    mine: defaultdict[int, list[ModelItem]] = defaultdict(list)
    theirs: defaultdict[int, list[StoredItem]] = defaultdict(list)
    for due, item in model.delayed:
        mine[due].append(item)
    for score, kept in stored.delayed:
        theirs[int(score)].append(kept)
    if Counter({due: len(items) for due, items in mine.items()}) != Counter(
        {due: len(items) for due, items in theirs.items()}
    ):
        expected = [(at, item.id) for at, item in model.delayed]
        yield f"delayed: expected {expected}, stored {[(at, item.id) for at, item in stored.delayed]}"
        return
    model.delayed = []
    for due in sorted(mine):
        by_id: defaultdict[str, list[ModelItem]] = defaultdict(list)
        for item in mine[due]:
            by_id[item.id].append(item)
        ordered = [_taken(by_id[kept.id], kept) for kept in theirs[due] if by_id[kept.id]]
        yield from _items(f"due at {due}", ordered, theirs[due])
        for batch in {item.batch for item in ordered}:
            want = [item.id for item in mine[due] if item.batch == batch]
            if want != [item.id for item in ordered if item.batch == batch]:
                yield f"due at {due}: {want} were delayed by one call, stored {[kept.id for kept in theirs[due]]}"
        model.delayed += [(due, item) for item in ordered]


def _taken(items: list[ModelItem], kept: StoredItem) -> ModelItem:
    """The item of these with one id that the server has there; the first if there is none. An id comes again after its
    window.
    """
    return items.pop(next((n for n, item in enumerate(items) if not item.differs(kept)), 0))


def _busy(model: QueueModel, stored: Stored) -> Iterator[str]:
    if set(model.busy) != set(stored.busy):
        yield f"busy: expected {sorted(model.busy)}, stored {sorted(stored.busy)}"
        return
    for token, held in model.busy.items():
        if held.lease_end != stored.leases.get(token):
            yield f"the lease of {token}: expected {held.lease_end}, stored {stored.leases.get(token)}"
        if held.worker != stored.holders[token]:
            yield f"{token} is held by {stored.holders[token]}"
        if found := held.item.differs(stored.busy[token]):
            yield f"busy {token}: {found}"


def _removed(model: QueueModel, stored: Stored) -> Iterator[str]:
    if model.removed != stored.removed:
        yield f"removed: expected {model.removed}, stored {stored.removed}"


def _failed(model: QueueModel, stored: Stored) -> Iterator[str]:
    if {name: at for name, (at, _) in model.failed.items()} != stored.failed:
        yield f"failed: expected {[(n, at) for n, (at, _) in model.failed.items()]}, stored {stored.failed}"
        return
    for name, (_, item) in model.failed.items():
        if found := item.differs(stored.failed_items[name]):
            yield f"failed {name}: {found}"


def _rest(model: QueueModel, stored: Stored) -> Iterator[str]:
    known = {name: until for name, until in model.ids.items() if until > model.now}
    theirs = {name: ceil(until) for name, until in stored.ids.items() if until > model.now}
    if known != theirs:
        yield f"known ids: expected {known}, stored {theirs}"
    if model.workers != stored.workers:
        yield f"workers: expected {model.workers}, stored {stored.workers}"
    names = {name for name, count in model.counts.items() if count} - UNCOUNTED
    counts = {name: stored.number(name) for name in names}
    if counts != {name: model.counts[name] for name in names}:
        yield f"counters: expected {dict(model.counts)}, stored {counts}"


def _conservation(stored: Stored, pushed: int) -> Iterator[str]:
    came = stored.number("enqueued") + pushed
    left = sum(stored.number(name) for name in LEAVING)
    here = sum(map(len, stored.lists.values())) + len(stored.busy) + len(stored.delayed) + len(stored.failed)
    if came != left + here:
        yield f"{came} items came, {left} left and {here} are here"
