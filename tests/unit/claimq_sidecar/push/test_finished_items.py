"""The verdicts of finished items while an earlier one gets no answer, in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pytest

from claimq.errors import StoreUnavailable
from claimq.model import Outcome, Verdict
from claimq.reliable_queue import ReliableQueue
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.push.pusher import Pusher
from claimq_sidecar.settings import PushSettings, RedisSource, SidecarSettings
from claimq_sidecar.store import VERDICT_SECONDS, Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")


class Stuck:
    """A queue that answers all verdicts but the first one. ``done_at``: when each item was done."""

    def __init__(self) -> None:
        self.done_at: dict[str, float] = {}
        self._is_first = True

    async def done(self, tokens: Sequence[str]) -> list[Outcome]:
        is_first, self._is_first = self._is_first, False
        if is_first:
            await asyncio.sleep(VERDICT_SECONDS)
            raise StoreUnavailable("away")
        self.done_at |= dict.fromkeys(tokens, asyncio.get_running_loop().time())
        return [Outcome(token, Verdict.DONE) for token in tokens]

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        return await what(cast("ReliableQueue", self))


def test_items_that_finish_later_do_not_wait_for_a_verdict_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = Stuck()

    async def call(_: Store, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        return await queue.call(what)

    monkeypatch.setattr(Store, "call", call)
    push = PushSettings(port=None, socket=Path("nowhere"))
    source = RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"})
    settings = SidecarSettings(source, "queue", "worker", Path("socket"), concurrency=2, push=push)

    async def run() -> None:
        sidecar = Sidecar(settings)
        pusher = Pusher(sidecar, push)
        pusher._done.add(("worker/1",))
        await asyncio.sleep(1.0)
        pusher._done.add(("worker/2",))
        await asyncio.sleep(2 * VERDICT_SECONDS)
        await sidecar.store.close()

    run_skipping(run())
    assert queue.done_at["worker/2"] < 20.0
    assert VERDICT_SECONDS <= queue.done_at["worker/1"] < VERDICT_SECONDS + 20.0
