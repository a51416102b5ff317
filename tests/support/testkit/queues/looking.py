"""Short forms of what tests of a queue look at most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from claimq.model import NewItem
from testkit.queues.clock import move_clock

if TYPE_CHECKING:
    from claimq.blocking import BlockingQueue
    from claimq.limits import Limit
    from claimq.model import Claim, Item, Located, Outcome
    from claimq.queue.failed.removed import RemovedItem
    from claimq.reliable_queue import ReliableQueue
    from testkit.servers.server import Server

PARKED = 2**52


class Lengths(NamedTuple):
    """How many items are in each state."""

    main: int = 0
    busy: int = 0
    delayed: int = 0
    failed: int = 0


def is_empty(queue: BlockingQueue) -> bool:
    """Whether no item is in the queue, in whatever state."""
    return sum(queue.lengths().values()) == 0


async def lengths(queue: ReliableQueue) -> Lengths:
    """How many items are in each state, at one instant."""
    return Lengths(**{state.value: count for state, count in (await queue.lengths()).items()})


def texts(held: Iterable[Claim | Item | Located | RemovedItem]) -> list[str]:
    """The payloads of claims or items, wherever they are."""
    items: list[Any] = [getattr(one, "item", one) for one in held]
    return [item.text for item in items]


async def enqueued_and_claimed(queue: ReliableQueue, payloads: str) -> list[Claim]:
    """The claims of new items, a letter each."""
    await queue.enqueue_many(list(payloads))
    return await queue.claim(len(payloads), wait=0)


async def claimed(queue: ReliableQueue, count: int = 10) -> list[str]:
    """Claims up to so many items; their payloads."""
    return texts(await queue.claim(count, wait=0))


async def claim_one(queue: ReliableQueue) -> Claim:
    """The claim of the next item, the only one that a call gets."""
    (claim,) = await queue.claim(wait=0)
    return claim


async def waiting(queue: ReliableQueue) -> list[str]:
    """The payloads in main, in the order in which they would be claimed."""
    return texts(await queue.peek(1000))


def verdicts(outcomes: Iterable[Outcome]) -> list[str]:
    """What the outcomes say."""
    return [outcome.verdict.value for outcome in outcomes]


async def fill_in_turn(queue: ReliableQueue, clients: str, count: int = 3) -> None:
    """So many items of each client, a letter each, in turn."""
    await queue.enqueue_many(
        NewItem(f"{client}{number}", client=client) for number in range(count) for client in clients
    )


async def starts(queue: ReliableQueue, count: int = 100) -> str:
    """The clients whose items start, in order."""
    return "".join(claim.item.client or "-" for claim in await queue.claim(count, wait=0))


def parked(server: Server) -> int:
    """How many clients of the queue q wait for an instant, so that no claim looks at them."""
    count = server.call("ZCOUNT", "cq:{q}:clients", PARKED, "+inf")
    assert isinstance(count, int)
    return count


async def filled(queue: ReliableQueue, *limits: Limit, clients: str = "ab", count: int = 10) -> None:
    """The queue gets these limits, and so many items of each client, a letter each, in turn."""
    await queue.update_policy(limits=limits)
    await fill_in_turn(queue, clients, count)


async def end_by_lease(queue: ReliableQueue) -> None:
    """The leases of all claims end."""
    await move_clock(queue, 31)
    await queue.reap()


def connected_clients(server: Server) -> bytes:
    """The server's list of connections."""
    reply = server.call("CLIENT", "LIST")
    assert isinstance(reply, bytes)
    return reply
