"""Enqueues the items of an app, on connections that are made when they are first needed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import claimq.worker
from claimq.codec import check_name
from claimq.errors import NoServer
from claimq.item_options import OF_ENQUEUE
from claimq.model import EnqueuedItem, NewItem

_producers: WeakSet[Producer] = WeakSet()


def close_producers() -> None:
    """Closes the connections on which the apps of this process have enqueued; the next enqueue connects again."""
    for producer in list(_producers):
        producer.close()
        producer.close_of_loops()


@dataclass(frozen=True, slots=True)
class _Client:
    """Two methods of a client of the server or of the sidecar, blocking or not."""

    enqueue: Callable[..., Any]
    close: Callable[[], Any]


class Producer:
    """Enqueues to one queue: from threads on one client for each process, from coroutines on one for each event loop.

    ``connect``: the arguments of :func:`claimq.connect`.
    """

    def __init__(self, queue: str, connect: dict[str, Any]) -> None:
        self.queue = check_name("queue", queue)
        self.connect = connect
        self.through_sidecar = False
        """Whether this process works on this queue through a sidecar, and so enqueues through it too."""
        self._of_processes: dict[int, _Client] = {}
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Client] = WeakKeyDictionary()
        _producers.add(self)

    def enqueue(self, item: NewItem) -> EnqueuedItem:
        """Blocks until the item is stored. Raises RuntimeError in a coroutine."""
        if _runs_event_loop():
            raise RuntimeError("enqueue() blocks the event loop; in a coroutine, write await enqueue_async()")
        client = self._of_processes.get(os.getpid())
        if client is None:
            new_client = self._blocking()
            client = self._of_processes.setdefault(os.getpid(), new_client)
            if client is not new_client:  # another thread was faster
                new_client.close()
        stored: EnqueuedItem = client.enqueue(**_words(item))
        return stored

    async def enqueue_async(self, item: NewItem) -> EnqueuedItem:
        """The same for coroutines."""
        loop = asyncio.get_running_loop()
        client = self._of_loops.get(loop)
        if client is None:
            client = self._of_loops[loop] = self._awaited()
        stored: EnqueuedItem = await client.enqueue(**_words(item))
        return stored

    def close(self) -> None:
        """Closes the connections of the threads of this process."""
        if client := self._of_processes.pop(os.getpid(), None):
            client.close()

    async def close_async(self) -> None:
        """Closes the connections of this event loop."""
        if client := self._of_loops.pop(asyncio.get_running_loop(), None):
            await client.close()

    def close_of_loops(self) -> None:
        """The same for all event loops; those of a loop that is closed have ended with it."""
        clients, self._of_loops = self._of_loops, WeakKeyDictionary()
        for loop, client in clients.items():
            if loop.is_running():
                loop.call_soon_threadsafe(loop.create_task, client.close())
            elif not (loop.is_closed() or _runs_event_loop()):
                loop.run_until_complete(client.close())

    def _blocking(self) -> _Client:
        if self.through_sidecar:
            worker = claimq.worker.Worker(session=False)
            return _Client(worker.enqueue, worker.close)
        from claimq import blocking

        server = blocking.connect(**self.connect)
        try:
            return _Client(server.queue(self.queue).enqueue, server.close)
        except NoServer:
            server.close()
            raise

    def _awaited(self) -> _Client:
        if self.through_sidecar:
            worker = claimq.worker.connect_async(session=False)
            return _Client(worker.enqueue, worker.close)
        server = claimq.connect(**self.connect)
        return _Client(server.queue(self.queue).enqueue, server.close)


def _words(item: NewItem) -> dict[str, Any]:
    return {"payload": item.payload} | {name: getattr(item, name) for name in OF_ENQUEUE}


def _runs_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
