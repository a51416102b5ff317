"""Bounds in rows, bytes and time for reads of several calls whose end the server decides."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from claimq.errors import ClaimqError, ReadTooLarge, StoreMisused

T = TypeVar("T")
_ODD = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError)
"""What Python raises where a reply has another shape than the call's, or an impossible number."""
_OBJECT = 64
"""Bytes of memory that a small Python object takes."""
_outer: ContextVar[BoundedRead | None] = ContextVar("the read that contains the present one", default=None)


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The bounds of one read: elements of all replies together, the memory that they take in bytes, and the seconds
    that the server took for them. Programs that read from servers of others set smaller ones."""

    rows: int = 50_000_000
    size: int = 8 * 1024 * 1024 * 1024
    seconds: float = 3600.0


_larger: ContextVar[tuple[ReadBounds, int] | None] = ContextVar("bounds of larger reads", default=None)


@contextmanager
def larger_reads(bounds: ReadBounds, reply: int) -> Generator[None]:
    """Raises the bounds of reads inside a ``with`` block. ``reply``: bytes of the largest reply there. Both replace the
    smaller bounds of the connection."""
    before = _larger.set((bounds, reply))
    try:
        yield
    finally:
        _larger.reset(before)


def largest_reply(usual: int) -> int:
    """The bytes of the largest reply here. ``usual``: that of the connection."""
    return usual if (larger := _larger.get()) is None else max(usual, larger[1])


class BoundedRead:
    """One read: a ``with`` block around its calls and the parsing of their replies.

    Each call is made through :meth:`reply`. A reply that cannot be parsed raises StoreMisused at the end of the block.
    Arguments of the caller are checked before the block. What a read inside the block returns counts for both.
    """

    __slots__ = ("_bounds", "_doing", "_keeps", "_parent", "_parses", "_rows", "_seconds", "_size")

    def __init__(self, doing: str, bounds: ReadBounds, *, keeps: bool = True, parses: bool = True) -> None:
        """``keeps``: whether the read holds what it has read until it ends; if not, only its time is bounded.
        ``parses``: whether the block only parses replies, so that an error in it means a wrong reply."""
        larger = _larger.get()
        self._bounds = bounds if larger is None else larger[0]
        self._doing, self._keeps, self._parses = doing, keeps, parses
        self._rows = self._size = 0
        self._seconds = 0.0
        self._parent: BoundedRead | None = None

    def __enter__(self) -> Self:
        self._parent = _outer.get()
        _outer.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _outer.set(self._parent)
        if self._parses and isinstance(error, _ODD) and not isinstance(error, ClaimqError):
            raise StoreMisused(
                f"{self._doing}: the server's reply cannot be read ({type(error).__name__}); give the address of a "
                "Redis or Valkey server, and change the queue's keys only through claimq"
            ) from error

    async def reply(self, call: Awaitable[T], *, is_noted: bool = False) -> T:
        """Makes a call of this read and returns its reply. Raises ReadTooLarge if the replies are too large. The time
        is checked before the call is made, so no reply is thrown away because it came late. ``is_noted``: the call
        gives each of its replies to :meth:`add` as it arrives."""
        try:
            self.check_time()
        except ReadTooLarge:
            if isinstance(call, Coroutine):
                call.close()
            raise
        began = time.monotonic()  # the calls of a thread have no event loop here
        reply = await call
        self.add(() if is_noted else reply, time.monotonic() - began)
        return reply

    def check_time(self) -> None:
        """Raises ReadTooLarge if the replies have taken too long. An outer read is checked too."""
        if self._seconds > self._bounds.seconds:
            raise self._exceeded(f"replies for more than {self._bounds.seconds:g} s")
        if self._parent is not None:
            self._parent.check_time()

    def add(self, reply: object, seconds: float = 0.0) -> None:
        """Counts a reply, also for a read that contains this one. Raises ReadTooLarge."""
        self._seconds += seconds
        if self._keeps:
            rows, size = _size_of(reply)
            self._rows, self._size = self._rows + rows, self._size + size
        if self._rows > self._bounds.rows:
            raise self._exceeded(f"more than {self._bounds.rows:,} rows")
        if self._size > self._bounds.size:
            raise self._exceeded(f"more than {self._bounds.size:,} bytes")
        if self._parent is not None:
            self._parent.add(reply, seconds)

    def _exceeded(self, what: str) -> ReadTooLarge:
        fix = (
            "the number of the queue's workers and claims" if self._keeps else "repeat the call for the rest"
        )
        return ReadTooLarge(
            f"{self._doing}: the server returned {what} in one read, the most that this program takes; check the "
            f"server, and {fix}"
        )


def _size_of(reply: Any) -> tuple[int, int]:
    """The elements of a reply, also of the lists in it, and about how many bytes they take."""
    rows = size = 0
    waiting: list[Any] = [reply]
    while waiting:
        element: Any = waiting.pop()
        size += _OBJECT
        if isinstance(element, bytes | str):
            size += len(element)
        elif isinstance(element, dict):
            rows += len(element)
            waiting += [*element.keys(), *element.values()]
        elif isinstance(element, list | tuple):
            rows += len(element)
            waiting += element
    return rows, size


DEFAULT_BOUNDS = ReadBounds()
