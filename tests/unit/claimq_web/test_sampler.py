"""Samples of queues whose connections are closed."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import cast

import pytest

import claimq
from claimq.concurrency.background_work import spawn
from claimq.errors import StoreUnavailable
from claimq_admin.reads.documents import Json
from claimq_web.curves.samples import Samples
from claimq_web.queues.queues import QueuesWithoutObjects
from claimq_web.queues.sampler import Sampler
from testkit.skipping_loop import run_skipping


class Closed(QueuesWithoutObjects):
    """Queues whose connections are closed."""

    def __init__(self, *servers: claimq.Server) -> None:
        self._servers = servers
        self.was_asked = asyncio.Event()

    async def names(self) -> Sequence[str]:
        self.was_asked.set()
        raise StoreUnavailable("this connection is closed")

    def decisions(self) -> Mapping[str, Json]:
        return {}

    def servers(self) -> Iterable[claimq.Server]:
        return self._servers


@pytest.mark.parametrize("is_stopping", [True, False])
async def test_connections_that_the_program_closes_at_its_end_are_no_error(
    caplog: pytest.LogCaptureFixture, is_stopping: bool
) -> None:
    queues = Closed() if is_stopping else Closed(claimq.connect("redis://127.0.0.1:1"))
    with caplog.at_level(logging.WARNING):
        sampling = spawn(Sampler(queues, Samples()).run(), name="samples")
        await queues.was_asked.wait()
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)
    for server in queues.servers():
        await server.close()
    assert ("this connection is closed" in caplog.text) is not is_stopping


class Hanging(QueuesWithoutObjects):
    """160 queues of one tenant whose servers do not answer, and one of another that is gone."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def names(self) -> Sequence[str]:
        return [*(f"eve.{number:03}" for number in range(160)), "ann.orders"]

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        self.asked.append(name)
        return cast("claimq.ReliableQueue", name) if name.startswith("eve.") else None

    async def check(self, name: str) -> None:
        await asyncio.Event().wait()

    def decisions(self) -> Mapping[str, Json]:
        return {}

    def servers(self) -> Iterable[claimq.Server]:
        return ()


def test_servers_that_do_not_answer_make_only_the_first_pass_long() -> None:
    queues = Hanging()
    sampler = Sampler(queues, Samples())

    async def passes() -> list[float]:
        loop, lasted = asyncio.get_running_loop(), list[float]()
        for _ in range(11):
            began = loop.time()
            await sampler.sample_all()
            lasted.append(loop.time() - began)
        return lasted

    assert run_skipping(passes()) == pytest.approx([50.0, *[5.0] * 10])
    assert len(sampler.problems) == 160
    asked = Counter(queues.asked)
    assert asked.pop("ann.orders") == 11
    assert set(asked.values()) == {2}


class Timed(Sampler):
    """Samples the queues of `Hanging` when they would answer, and notes when the one of ann was sampled."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Hanging(), Samples())
        self._seconds = seconds
        self.sampled_at: list[float] = []

    async def sample(self, name: str) -> None:
        if name.startswith("eve."):
            await asyncio.sleep(self._seconds)
        else:
            self.sampled_at.append(asyncio.get_running_loop().time())


@pytest.mark.parametrize(("seconds", "longest"), [(1e9, 5.0), (1.5, 1.5)])
def test_late_queues_do_not_make_the_pause_longer(seconds: float, longest: float) -> None:
    sampler = Timed(seconds)

    async def ten_minutes() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(600):
                await sampler.run()

    run_skipping(ten_minutes())
    pauses = [later - earlier for earlier, later in pairwise(sampler.sampled_at)]
    assert len(pauses) > 50
    assert max(pauses) <= longest + 2.3
