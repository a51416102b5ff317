"""The client for threads: ``claimq.worker.connect()``."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from claimq.arguments import Duration
from claimq.concurrency.without_loop import run
from claimq.worker.backends import blocking
from claimq.worker.client import Client
from claimq.worker.green_backend import blocking_backend
from claimq.worker.item import Item

P = ParamSpec("P")
R = TypeVar("R")


def _of_client(
    method: Callable[Concatenate[Client[Item], P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Worker, P], R]:
    return blocking(method, of=lambda worker: worker.client)


class Worker:
    """A connection to the sidecar. Use it as a context manager; any thread may call its methods.

    Each method runs the coroutine of :class:`claimq.worker.client.Client` with the same name in the calling thread.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        session: bool = True,
        patience: Duration = 120.0,
    ) -> None:
        self.client: Client[Item] = Client(
            blocking_backend(), Item, socket, session=session, patience=patience
        )
        self.path = self.client.path

    @property
    def draining(self) -> bool:
        """Whether the sidecar gives no more items: finish what is in progress and end."""
        return self.client.draining

    @property
    def in_flight(self) -> list[Item]:
        """Items that were claimed here and have no verdict yet."""
        return self.client.in_flight

    def stop(self) -> None:
        """Ends :meth:`items` after the item in progress. Safe in a signal handler and in any thread."""
        self.client.stop()

    open = _of_client(Client[Item].open)
    close = _of_client(Client[Item].close)
    info = _of_client(Client[Item].info)
    claim = _of_client(Client[Item].claim)
    done = _of_client(Client[Item].done)
    fail = _of_client(Client[Item].fail)
    requeue = _of_client(Client[Item].requeue)
    unclaim = _of_client(Client[Item].unclaim)
    renew = _of_client(Client[Item].renew)
    enqueue = _of_client(Client[Item].enqueue)
    enqueue_many = _of_client(Client[Item].enqueue_many)

    def items(
        self,
        *,
        chunk: int = 1,
        wait: Duration = 5.0,
        handle_signals: bool | None = None,
        settle_elsewhere: bool = False,
    ) -> Iterator[Item]:
        """Items, one by one, until a drain or a signal; the item in progress is finished first.

        SIGTERM and SIGINT end it in the main thread. One for which the program has a handler, or the server that it
        runs in (uvicorn, gunicorn), is left to it unless ``handle_signals`` is True; False leaves both. ``chunk`` items
        are claimed at once; those of them that were not begun go back to the head, uncounted. Outages of the sidecar or
        its store are waited out (``patience`` for the sidecar).

            for item in worker.items():
                with item:
                    work(item.json())

        Asking for the next item while the last one has neither a verdict nor an open ``with`` block fails that
        item and raises ItemNotSettled, since nothing else would ever end it. With ``settle_elsewhere`` this is
        not checked: another thread ends the items.
        """
        items = self.client.items(
            chunk=chunk, wait=wait, handle_signals=handle_signals, settle_elsewhere=settle_elsewhere
        )
        try:
            while True:
                try:
                    item = run(items.__anext__())
                except StopAsyncIteration:
                    return
                yield item
        finally:
            run(items.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives back what is in progress, uncounted. After an exception, or ``sys.exit`` with a code other than 0 that
        nothing asked for, all that the app has received goes back with the session, as a crash.
        """
        run(self.client.leave(error))


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    session: bool = True,
    within: Duration = 10.0,
    patience: Duration = 120.0,
) -> Worker:
    """Connects to the sidecar and opens a session.

    ``socket``: its path, by default ``$CLAIMQ_SOCKET``, else /run/claimq/claimq.sock. ``within``: seconds to
    wait for the sidecar to start; then SidecarUnavailable says what is missing. Without ``socket`` and the variable
    it does so at once if there is no /run/claimq. With ``session=False`` claims have plain leases that the app renews
    itself, and that last until they run out.
    """
    worker = Worker(socket, session=session, patience=patience)
    worker.open(within)
    return worker
