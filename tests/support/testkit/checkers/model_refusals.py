"""Which new items a queue refuses, by the documents alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from claimq.errors import ItemTooLarge, QueueFull
from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import Order


def refusal(
    models: Mapping[str, QueueModel], orders: Mapping[str, Sequence[Order]]
) -> type[ItemTooLarge | QueueFull] | None:
    """The error of a call with these items; None if it is taken."""
    if any(models[name].is_too_large(new) for name, new in orders.items()):
        return ItemTooLarge
    return QueueFull if any(_is_over(models[name], new) for name, new in orders.items()) else None


def _is_over(model: QueueModel, orders: Sequence[Order]) -> bool:
    """Whether more would wait than the bounds of the policy allow. What stores nothing is over no bound."""
    bound = model.policy.max_waiting
    known = model.known(orders)
    adding = Counter(order.client for order, is_known in zip(orders, known, strict=True) if not is_known)
    waiting = Counter(item.client for items in model.lists.values() for item in items)
    waiting.update(item.client for _, item in model.delayed)
    after = waiting + adding
    if bound.items is not None and adding and after.total() > bound.items:
        return True
    clients = adding.keys() - {"-"}
    return bound.per_client_items is not None and any(
        after[client] > bound.per_client_items for client in clients
    )
