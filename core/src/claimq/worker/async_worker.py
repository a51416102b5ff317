"""The client for event loops: ``claimq.worker.connect_async()``."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

from claimq.arguments import Duration
from claimq.concurrency.green_threads import refuse_unusable_threads
from claimq.worker.backends import ASYNCIO
from claimq.worker.client import Client
from claimq.worker.item import AsyncItem


class AsyncWorker(Client[AsyncItem]):
    """A connection to the sidecar for one event loop. Use it with ``async with``."""

    def __init__(
        self, socket: str | os.PathLike[str] | None, *, session: bool, within: Duration, patience: Duration
    ) -> None:
        refuse_unusable_threads("claimq.worker")
        super().__init__(ASYNCIO, AsyncItem, socket, session=session, patience=patience)
        self._within = within

    async def __aenter__(self) -> Self:
        await self.open(self._within)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives back what is in progress; see :meth:`leave`."""
        await self.leave(error)


def connect_async(
    socket: str | os.PathLike[str] | None = None,
    *,
    session: bool = True,
    within: Duration = 10.0,
    patience: Duration = 120.0,
) -> AsyncWorker:
    """The sidecar as an async context manager; see :func:`claimq.worker.connect`."""
    return AsyncWorker(socket, session=session, within=within, patience=patience)
