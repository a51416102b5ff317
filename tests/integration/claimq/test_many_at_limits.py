"""Limits with as many workers, clients and keys as the product promises."""

import asyncio

import pytest

import claimq
from claimq import Limit, NewItem, ReliableQueue
from testkit.checkers.starts import fullest
from testkit.workers.handlers import fill

COUNT, WORKERS, STARTS = 100_000, 100, 300
"""Clients or keys; workers that claim at once, and items for them."""
TWICE = 1_000
"""So many clients or keys have two items."""


async def test_a_hundred_workers_that_claim_at_once_never_exceed_a_limit(store: claimq.Server) -> None:
    rate, bound = Limit("api", rate="100/s", burst=5), Limit("slots", busy=20)
    queues = [store.queue("q", worker=f"w{number}") for number in range(WORKERS)]
    await queues[0].update_policy(limits=[rate, bound])
    await fill(queues[0], STARTS)
    instants: list[int] = []
    in_progress: list[int] = [0]

    async def work(queue: ReliableQueue) -> None:
        while len(instants) < STARTS:
            claims = await queue.claim(7, wait=0.1)
            instants.extend(round(claim.claimed_at * 1000) for claim in claims)
            in_progress.append(in_progress[-1] + len(claims))
            await asyncio.sleep(0)  # lets others claim before the end
            await queue.done(claims)
            in_progress.append(in_progress[-1] - len(claims))

    await asyncio.gather(*map(work, queues))
    assert len(instants) == STARTS
    assert fullest(instants, rate) <= 5
    assert max(in_progress) <= 20


@pytest.mark.parametrize("per", ["client", "key"])
async def test_a_hundred_thousand_clients_or_keys_start_an_item_each(queue: ReliableQueue, per: str) -> None:
    await queue.update_policy(limits=[Limit("each", rate="1/d", per=per)], busy_expiry=3600.0)
    numbers = [*range(COUNT), *range(TWICE)]
    for at in range(0, len(numbers), 1000):
        await queue.enqueue_many(
            [
                NewItem("x", client=f"{n}") if per == "client" else NewItem("x", key=f"{n}")
                for n in numbers[at : at + 1000]
            ]
        )
    assert await _names_of_starts(queue, per) == sorted(map(str, range(COUNT)))
    assert await queue.claim(1000, wait=0) == []
    await queue.update_policy(limits=[])
    assert await _names_of_starts(queue, per) == sorted(map(str, range(TWICE)))
    assert not sum((await queue.lengths()).values())


async def _names_of_starts(queue: ReliableQueue, per: str) -> list[str]:
    """Ends all that may start now; the clients or keys of these items."""
    names: list[str] = []
    while claims := await queue.claim(1000, wait=0):
        names += [str(getattr(claim.item, per)) for claim in claims]
        await queue.done(claims)
    return sorted(names)
