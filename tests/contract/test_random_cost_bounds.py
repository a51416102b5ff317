"""Random work under bounds on what items in progress cost."""

import random

import pytest

from claimq import Limit, NewItem, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.model import Claim
from testkit.queues.clock import move_clock
from testkit.queues.looking import lengths

pytestmark = pytest.mark.frozen_clock(True)


class Work:
    """Random items, claims, ends and changes of the bounds. No more cost is in progress than a bound allows, but for
    what was in progress when it was set, and claims by id."""

    def __init__(self, queue: ReliableQueue, seed: int) -> None:
        self.choose = random.Random(seed)
        self.queue = queue
        self.held: list[Claim] = []
        self.most = dict.fromkeys(("queue", "client", "key"), 10)

    async def set_bounds(self) -> None:
        for per in self.most:
            self.most[per] = self.choose.choice([3, 10, 17])
        per = self.choose.choice(["none", *self.most])
        rate = Limit("rate", rate="50/s", burst=30, unit="cost", per=self.choose.choice([*self.most]))
        limits = [
            Limit(name, busy=busy, per=name, unit="cost") for name, busy in self.most.items() if name != per
        ]
        self.most_now = {limit.name: limit.busy or 0 for limit in limits}
        await self.queue.update_policy(limits=[*limits, rate])

    def sums(self) -> dict[tuple[str, str | None], int]:
        sums: dict[tuple[str, str | None], int] = {}
        for claim in self.held:
            item = claim.item
            for place in {("queue", ""), ("client", item.client), ("key", item.key)}:
                sums[place] = sums.get(place, 0) + min(item.cost, self.most_now.get(place[0], item.cost))
        return sums

    async def step(self) -> None:
        match self.choose.randrange(8):
            case 0 | 1:
                await self.queue.enqueue_many(
                    NewItem("x", client=self.choose.choice(["a", "b", None]),
                        key=self.choose.choice(["k", "l", None]), cost=self.choose.choice([1, 1, 2, 3]),
                        priority=self.choose.choice(["high", "normal", "low"]))
                    for _ in range(self.choose.randrange(1, 6))
                )  # fmt: skip
            case 2 | 3 | 4:
                await self.claim()
            case 5 | 6 if self.held:
                await self.end()
            case 7 if self.choose.random() < 0.3:
                await self.set_bounds()
            case _:
                await move_clock(self.queue, self.choose.choice([0.01, 0.2]))

    async def claim(self) -> None:
        self.note(await self.queue.claim(self.choose.choice([1, 2, 100]), wait=0))

    def note(self, claims: list[Claim]) -> None:
        before = self.sums()
        self.held += claims
        for place, cost in self.sums().items():
            most = self.most_now.get(place[0])
            if place[1] is not None and most is not None:
                assert cost <= most or cost == before.get(place), (place, cost, most)

    async def end(self) -> None:
        self.choose.shuffle(self.held)
        count = self.choose.randrange(1, len(self.held) + 1)
        claims, self.held = self.held[:count], self.held[count:]
        match self.choose.randrange(4):
            case 0:
                await self.queue.unclaim(claims)
            case 1:
                await self.queue.requeue(claims)
            case 2:
                self.note((await next_claims(self.queue).done_and_claim(claims, 3))[1])
            case _:
                await self.queue.done(claims)


@pytest.mark.parametrize("seed", range(6))
async def test_random_work_stays_within_the_bounds_and_ends(queue: ReliableQueue, seed: int) -> None:
    await queue.update_policy(busy_expiry=86400)
    work = Work(queue, seed)
    await work.set_bounds()
    for _ in range(150):
        await work.step()
    await queue.done(work.held)
    work.held = []
    for _ in range(1000):
        work.held = []
        await work.claim()
        await queue.done(work.held)
        await move_clock(queue, 0.2)
    assert await lengths(queue) == (0, 0, 0, 0)
