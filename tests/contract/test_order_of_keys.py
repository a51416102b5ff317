"""Whatever happens, items of a key start in the order of arrival, and one by one."""

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
import redis

from claimq import NewItem, Policy, ReliableQueue, RetryDelay
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from testkit.checkers.stored import inconsistencies, read_queue
from testkit.queues.clock import move_clock
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)


class Starts:
    """The items of each key, client and priority that have not started yet, in the order of arrival."""

    def __init__(self) -> None:
        self.next_ids: dict[tuple[str | None, str | None, str], list[str]] = {}
        self.started: set[str] = set()

    def expect(self, ids: Iterable[str], items: list[NewItem]) -> None:
        for item_id, item in zip(ids, items, strict=True):
            self.next_ids.setdefault((item.key, item.client, item.priority), []).append(item_id)

    def note(self, claims: list[Claim]) -> list[Claim]:
        """The claims; each item that starts for the first time is the next one."""
        for item in (claim.item for claim in claims if claim.item.id not in self.started):
            assert self.next_ids[item.key, item.client, item.priority].pop(0) == item.id
            self.started.add(item.id)
        return claims


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_items_of_a_key_start_in_order_and_one_by_one(
    queue: ReliableQueue, other_worker: ReliableQueue, server: Server, seed: int
) -> None:
    chance = random.Random(seed)
    await queue.set_policy(
        Policy(busy_expiry=5.0, requeue_limit=3, retry_delay=RetryDelay(initial=0.2, jitter=0))
    )
    held: list[Claim] = []
    starts = Starts()
    with redis.Redis(unix_socket_path=str(server.unix_path)) as client:
        for _ in range(150):
            at = chance.choice((queue, other_worker))
            kind = chance.choice(("enqueue", "claim", "claim", "next", "end", "time"))
            if kind == "enqueue":
                options: dict[str, Any] = {
                    "client": chance.choice((None, "ann")),
                    "priority": chance.choice(("normal", "high")),
                }
                size, keys = chance.choice((0, 0, 0, 400_000)), chance.choices("abc", k=chance.randint(1, 4))
                new = [NewItem("x".ljust(size), key=key, **options) for key in keys]
                starts.expect((await at.enqueue_many(new)).ids, new)
            elif kind == "claim":
                held += starts.note(await at.claim(chance.randint(1, 5), wait=0))
            elif kind == "time":
                await move_clock(queue, chance.choice((0.05, 0.3, 6.0)))
            elif held:
                claim = held.pop(chance.randrange(len(held)))
                if kind == "next":
                    held += starts.note(
                        (await next_claims(at).done_and_claim(claim, chance.randint(1, 3)))[1]
                    )
                else:
                    end = chance.choice((at.done, at.requeue, at.unclaim, partial(at.fail, error="no")))
                    await end(claim)
            stored = read_queue(client, queue.name)
            assert inconsistencies(stored) == []
            busy = [item.key for item in stored.busy.values()]
            assert len(set(busy)) == len(busy)
        await queue.done(held)
        while claims := await queue.claim(100, wait=0):
            await queue.done(starts.note(claims))
        assert read_queue(client, queue.name).held == []
    assert [ids for ids in starts.next_ids.values() if ids] == []
    stats = await queue.stats()
    assert stats["enqueued"] == sum((await queue.lengths()).values()) + stats["done"]
