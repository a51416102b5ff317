"""Which new items a queue refuses, by the documents alone."""

from collections import Counter
from collections.abc import Mapping, Sequence

from claimq.errors import ItemTooCostly, ItemTooLarge, QueueFull
from testkit.checkers.model import QueueModel
from testkit.checkers.model_item import Order


def refusals(models: Mapping[str, QueueModel], orders: Mapping[str, Sequence[Order]]) -> set[type[Exception]]:
    """The errors that a call with these items may have; none if it is taken."""
    is_full = any(_is_over(models[name], new) for name, new in orders.items())
    return refused_items(models, orders) or ({QueueFull} if is_full else set())


def refused_items(
    models: Mapping[str, QueueModel], orders: Mapping[str, Sequence[Order]]
) -> set[type[Exception]]:
    """The errors for single items: any of them, if there are several. One that is known may cost what it likes."""
    errors = set[type[Exception]]()
    for name, new in orders.items():
        model = models[name]
        if model.is_too_large(new):
            errors.add(ItemTooLarge)
        if any(
            model.is_too_costly(order)
            for order, known in zip(new, model.known(new), strict=True)
            if not known
        ):
            errors.add(ItemTooCostly)
    return errors


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
