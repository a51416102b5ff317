"""A handler of consume() closes the queue: nothing begins before it opens, and the run goes on then."""

import time

import pytest

from claimq import Item, Later, ReliableQueue
from testkit.workers.handlers import fill

PAUSE = 0.5


class Away:
    """A handler, for a service that is away at its first call. Counts what goes back without having begun."""

    def __init__(self) -> None:
        self.began: list[tuple[str, float]] = []
        self.given_back: list[str] = []

    async def __call__(self, item: Item) -> None:
        self.began.append((item.text, time.monotonic()))
        if len(self.began) == 1:
            raise Later(PAUSE, close="queue")


@pytest.mark.parametrize("chunk", [1, 10, None])
async def test_nothing_that_was_claimed_ahead_begins_before_the_queue_opens(
    queue: ReliableQueue, chunk: int | None
) -> None:
    handler, payloads = Away(), await fill(queue, 30)
    consumed = await queue.consume(handler, chunk=chunk, return_when_empty=True)
    assert (consumed.stopped_by, consumed.postponed, consumed.failed, consumed.lost) == ("empty", 1, 0, 0)
    (first, at), *others = handler.began
    assert first == payloads[0]
    assert min(began for _, began in others) - at >= PAUSE
    assert {text for text, _ in others} >= set(payloads[1:])
    assert (await queue.stats())["fails"] == 0
