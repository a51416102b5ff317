"""Samples of queues whose connections are closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

import pytest

import claimq
from claimq.concurrency.background_work import in_background
from claimq.errors import StoreUnavailable
from claimq_web.curves.samples import Samples
from claimq_web.queues.queues import Json, QueuesWithoutObjects
from claimq_web.queues.sampler import Sampler


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
        sampling = in_background(Sampler(queues, Samples()).run(), name="samples")
        await queues.was_asked.wait()
    sampling.cancel()
    await asyncio.gather(sampling, return_exceptions=True)
    for server in queues.servers():
        await server.close()
    assert ("this connection is closed" in caplog.text) is not is_stopping
