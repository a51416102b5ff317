"""Items for handlers, and assertions on what was enqueued."""

from __future__ import annotations

from typing import Any

from claimq.blocking import BlockingQueue
from claimq.codec import payload_bytes
from claimq.model import Item, NewItem, State

_MOST = 10_000


def make_item(payload: object, **fields: Any) -> Item:
    """An item to call a handler with: ``handler(make_item({"url": "cat.png"}, requeue_count=2))``.

    ``payload``: as for ``enqueue``, or a :class:`claimq.NewItem`, such as the ``item(...)`` of a task. ``fields``:
    those of :class:`claimq.Item`.
    """
    new = payload if isinstance(payload, NewItem) else NewItem(payload)
    own = {"id": new.id or "test", "client": new.client, "header_pairs": tuple((new.headers or {}).items())}
    given: dict[str, Any] = {**own, "enqueued_at": 0.0, "first_enqueued_at": 0.0, **fields}
    return Item(payload=payload_bytes(new.payload), **given)


def assert_enqueued(queue: BlockingQueue, *expected: object) -> None:
    """Checks that exactly these items wait in a queue, delayed ones included, in any order.

    Each is a payload, or a :class:`claimq.NewItem` whose ``id`` and ``client`` count where they are set. It has to be
    delayed if its ``delay`` or ``at`` is set.
    """
    found = [*_waiting(queue, State.MAIN), *_waiting(queue, State.DELAYED)]
    wanted = [one if isinstance(one, NewItem) else NewItem(one) for one in expected]
    rest = list(found)
    for one in sorted(wanted, key=lambda one: (one.id is None, one.client is None)):
        match = next((waiting for waiting in rest if _matches(waiting, one)), None)
        if match is not None:
            rest.remove(match)
    if rest or len(found) != len(wanted):
        raise AssertionError(f"{queue.name} has {found}; expected {wanted}")


def _waiting(queue: BlockingQueue, state: State) -> list[NewItem]:
    delay = 1.0 if state is State.DELAYED else None
    items = (located.item for located in queue.items(state, _MOST))
    return [NewItem(item.payload, item.id, item.client, delay) for item in items]


def _matches(found: NewItem, wanted: NewItem) -> bool:
    return (
        found.payload == payload_bytes(wanted.payload)
        and wanted.id in (None, found.id)
        and wanted.client in (None, found.client)
        and (found.delay is None) == (wanted.delay is None and wanted.at is None)
    )
