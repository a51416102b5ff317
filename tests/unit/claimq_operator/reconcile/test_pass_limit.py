"""How many passes run at once, by how late the event loop is."""

import asyncio

import pytest

from claimq_operator.reconcile.pass_limit import PassLimit, adapted


@pytest.mark.parametrize(
    ("limit", "lag", "then"),
    [
        (16, 0.0, 32),
        (16, 0.2, 16),
        (16, 0.6, 8),
        (5, 60.0, 4),
        (4, 60.0, 4),
        (4000, 0.0, 4096),
        (4096, 0.0, 4096),
    ],
)
def test_the_limit_follows_the_lag(limit: int, lag: float, then: int) -> None:
    assert adapted(limit, lag) == then


class Passes:
    """Passes of numbered queues, each of which goes on until it is ended."""

    def __init__(self, limit: PassLimit, count: int) -> None:
        self.began: list[int] = []
        self.ends = [asyncio.Event() for _ in range(count)]
        self.tasks = [asyncio.ensure_future(self._run(limit, number)) for number in range(count)]

    async def _run(self, limit: PassLimit, number: int) -> None:
        async with limit:
            self.began.append(number)
            await self.ends[number].wait()

    async def settle(self) -> list[int]:
        """The passes that have begun, once the loop has nothing more to do."""
        for _ in range(10):
            await asyncio.sleep(0)
        return self.began

    async def end(self) -> None:
        for one in self.ends:
            one.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_passes_begin_in_order_as_others_end() -> None:
    passes = Passes(PassLimit(), 20)
    assert await passes.settle() == list(range(16))
    passes.ends[7].set()
    assert await passes.settle() == list(range(17))
    await passes.end()
    assert passes.began == list(range(20))


async def test_a_prompt_loop_runs_all_passes_although_none_ends() -> None:
    limit = PassLimit()
    passes = Passes(limit, 100)
    for begun in (32, 64, 100):
        limit.adapt(0.0)
        assert len(await passes.settle()) == begun
    await passes.end()


async def test_a_late_loop_lets_no_pass_begin_until_enough_have_ended() -> None:
    limit = PassLimit()
    passes = Passes(limit, 20)
    await passes.settle()
    limit.adapt(2.0)
    for number in range(8):
        passes.ends[number].set()
    assert len(await passes.settle()) == 16
    passes.ends[8].set()
    assert len(await passes.settle()) == 17
    await passes.end()


async def test_a_cancelled_wait_takes_no_turn() -> None:
    passes = Passes(PassLimit(), 18)
    await passes.settle()
    passes.tasks[16].cancel()
    await passes.settle()
    passes.ends[0].set()
    assert await passes.settle() == [*range(16), 17]
    await passes.end()


async def test_a_turn_that_came_at_the_moment_of_a_cancellation_passes_on() -> None:
    limit = PassLimit()
    passes = Passes(limit, 18)
    await passes.settle()
    limit.adapt(0.0)  # both turns have come, and neither task has run since
    passes.tasks[16].cancel()
    await passes.settle()
    assert passes.began == [*range(16), 17]
    await passes.end()
    async with asyncio.timeout(5):  # every turn was given back
        again = Passes(limit, 32)
        assert len(await again.settle()) == 32
        await again.end()
