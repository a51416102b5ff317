"""Short forms of what tests of a queue look at most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from claimq.model import Claim, Item, Outcome
    from claimq.reliable_queue import ReliableQueue


class Lengths(NamedTuple):
    """How many items are in each state."""

    main: int = 0
    busy: int = 0
    delayed: int = 0
    failed: int = 0


async def lengths(queue: ReliableQueue) -> Lengths:
    """How many items are in each state, at one instant."""
    return Lengths(**{state.value: count for state, count in (await queue.lengths()).items()})


def texts(held: Iterable[Claim | Item]) -> list[str]:
    """The payloads of claims or items."""
    items: list[Any] = [getattr(one, "item", one) for one in held]
    return [item.text for item in items]


async def waiting(queue: ReliableQueue) -> list[str]:
    """The payloads in main, in the order in which they would be claimed."""
    return texts(await queue.peek(1000))


def verdicts(outcomes: Iterable[Outcome]) -> list[str]:
    """What the outcomes say."""
    return [outcome.verdict.value for outcome in outcomes]
