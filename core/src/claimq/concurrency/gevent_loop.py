"""An event loop that waits in the gevent hub of its thread, for programs that gevent has patched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar, TypeVarTuple

from gevent import Greenlet, get_hub, spawn
from gevent.monkey import get_original
from gevent.selectors import GeventSelector

__all__ = ["GeventLoop", "get_hub", "get_original"]
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class GeventLoop(asyncio.SelectorEventLoop):
    """Runs in a thread of its own. It runs the functions of ``run_in_executor``, such as look-ups of host names, in
    greenlets of that thread: patched threads would belong to a hub that ends before them."""

    def __init__(self) -> None:
        super().__init__(GeventSelector(get_hub()))

    def close(self) -> None:
        """Closes the loop and the hub of its thread."""
        super().close()
        get_hub().destroy(destroy_loop=True)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Like :meth:`asyncio.loop.run_in_executor`, but in a greenlet. ``executor`` is not used."""
        del executor
        future: asyncio.Future[T] = self.create_future()

        def take(ended: Greenlet[..., T]) -> None:
            if not self.is_closed():
                self.call_soon_threadsafe(_end, future, ended)

        greenlet: Greenlet[..., T] = spawn(func, *args)  # pyright: ignore[reportUnknownVariableType] - of arguments
        greenlet.link(take)
        return future


def _end(future: asyncio.Future[T], ended: Greenlet[..., T]) -> None:
    if future.done():  # cancelled
        return
    if ended.exception is None:
        future.set_result(ended.get())
    else:
        future.set_exception(ended.exception)
