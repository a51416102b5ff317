"""How long the claims that a session takes over use the memory of its request, in simulated time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

import pytest

from claimq.errors import StoreUnavailable
from claimq.model import Outcome, Verdict
from claimq.reliable_queue import ReliableQueue
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.sidecar import Sidecar
from claimq_sidecar.memory import Budget, Share
from claimq_sidecar.settings import RedisSource, SidecarSettings
from claimq_sidecar.store import CALL_SECONDS, Store
from testkit.skipping_loop import run_skipping

T = TypeVar("T")
SIZE = 1000


class Queue:
    """A queue without claims on a server that may be away."""

    def __init__(self) -> None:
        self.is_away = True

    async def renew(self, tokens: Sequence[str]) -> list[Outcome]:
        return [Outcome(token, Verdict.LOST) for token in tokens]

    async def crash(self, tokens: Sequence[str], _: str) -> list[Outcome]:
        return [Outcome(token, Verdict.LOST) for token in tokens]

    async def call(self, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        await asyncio.sleep(CALL_SECONDS)
        if self.is_away:
            raise StoreUnavailable("away")
        return await what(cast("ReliableQueue", self))


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()

    async def call(_: Store, what: Callable[[ReliableQueue], Awaitable[T]]) -> T:
        return await made.call(what)

    async def check(_: Store) -> None:
        """It has read no policy yet."""

    monkeypatch.setattr(Store, "call", call)
    monkeypatch.setattr(Store, "check", check)
    return made


async def opened(sidecar: Sidecar) -> tuple[str, Share]:
    """A session that has taken over a claim, and the share of its request, which has ended."""
    share = Share()
    assert await share.take(Budget(SIZE), SIZE, 0.0)
    session, _ = await sidecar.open_session(Connection(), ["worker/1"], share)
    share.end()
    return session.id, share


def new_sidecar() -> Sidecar:
    return Sidecar(
        SidecarSettings(
            RedisSource({"CLAIMQ_REDIS_URL": "redis://nowhere"}), "queue", "worker", Path("socket")
        )
    )


def test_a_session_that_takes_over_claims_keeps_memory_until_the_server_answers(queue: Queue) -> None:
    async def run() -> None:
        sidecar = new_sidecar()
        renewing = asyncio.ensure_future(sidecar.verdicts.renewer.run())
        _, share = await opened(sidecar)
        await asyncio.sleep(3600.0)
        assert share.size == SIZE
        queue.is_away = False
        await asyncio.sleep(60.0)
        assert (share.size, len(sidecar.in_flight)) == (0, 0)
        _, share = await opened(sidecar)
        assert share.size == 0
        renewing.cancel()
        await sidecar.store.close()

    run_skipping(run())


def test_a_session_whose_claims_have_ended_keeps_no_memory(queue: Queue) -> None:
    async def run() -> None:
        sidecar = new_sidecar()
        renewing = asyncio.ensure_future(sidecar.verdicts.renewer.run())
        _, share = await opened(sidecar)
        await asyncio.sleep(0.1)  # the renewer knows of it
        sidecar.in_flight.remove(["worker/1"])
        await asyncio.sleep(60.0)
        assert share.size == 0
        renewing.cancel()
        await sidecar.store.close()

    run_skipping(run())


def test_a_closed_session_keeps_memory_until_its_claims_have_been_returned(queue: Queue) -> None:
    async def run() -> None:
        sidecar = new_sidecar()
        session, share = await opened(sidecar)
        sidecar.close_session(sidecar.sessions.get(session), share)
        share.end()
        await asyncio.sleep(CALL_SECONDS - 1.0)
        assert share.size == SIZE
        await asyncio.sleep(2.0)
        assert share.size == 0
        await sidecar.store.close()

    run_skipping(run())
