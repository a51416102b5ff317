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
    item_fields = {
        "id": new.id or "test",
        "client": new.client,
        "header_pairs": tuple((new.headers or {}).items()),
    }
    all_fields: dict[str, Any] = {**item_fields, "enqueued_at": 0.0, "first_enqueued_at": 0.0, **fields}
    return Item(payload=payload_bytes(new.payload), **all_fields)


def assert_enqueued(queue: BlockingQueue, *expected: object) -> None:
    """Checks that exactly these items wait in a queue, delayed ones included, in any order.

    Each is a payload, or a :class:`claimq.NewItem` whose ``id`` and ``client`` count where they are set. It has to be
    delayed if its ``delay`` or ``at`` is set.
    """
    waiting_items = [*_waiting(queue, State.MAIN), *_waiting(queue, State.DELAYED)]
    expected_items = [item if isinstance(item, NewItem) else NewItem(item) for item in expected]
    rest = list(waiting_items)
    for expected_item in sorted(
        expected_items, key=lambda expected_item: (expected_item.id is None, expected_item.client is None)
    ):
        match = next((waiting for waiting in rest if _matches(waiting, expected_item)), None)
        if match is not None:
            rest.remove(match)
    if rest or len(waiting_items) != len(expected_items):
        raise AssertionError(f"{queue.name} has {waiting_items}; expected {expected_items}")


def _waiting(queue: BlockingQueue, state: State) -> list[NewItem]:
    delay = 1.0 if state is State.DELAYED else None
    items = (located.item for located in queue.items(state, _MOST))
    return [NewItem(item.payload, item.id, item.client, delay) for item in items]


def _matches(actual: NewItem, expected: NewItem) -> bool:
    return (
        actual.payload == payload_bytes(expected.payload)
        and expected.id in (None, actual.id)
        and expected.client in (None, actual.client)
        and (actual.delay is None) == (expected.delay is None and expected.at is None)
    )
