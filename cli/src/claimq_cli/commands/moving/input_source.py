"""Reads a file, a pipe or a terminal without blocking, so that signals are handled while no input arrives."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from claimq_admin.errors import USAGE, CommandError
from claimq_admin.item_files.text_encoding import Utf8Text

_READ_BYTES = 256 * 1024
_MOST_LINES = 1000
LONGEST_LINE = 512 * 1024 * 1024
"""Bytes. No server stores more in one item."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Lines that are enqueued by one call, each with its number: from 1, empty lines of text counted but left out.

    ``first`` and ``last``: the first and last line number, empty lines included. ``cut``: the numbers of lines that are
    empty or end with a carriage return, if both are left out.
    """

    first: int
    last: int
    lines: tuple[tuple[int, bytes], ...]
    cut: tuple[int, ...] = ()


class InputSource:
    """An open input; '-' is stdin. A context manager."""

    def __init__(self, source: str) -> None:
        try:
            # Without O_NONBLOCK, opening a named pipe would block until it has a writer.
            self._handle = (
                os.dup(sys.stdin.fileno())
                if source == "-"
                else os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            )
            mode = os.fstat(self._handle).st_mode
        except OSError as error:
            raise _unreadable(source, error.strerror or "") from error
        self.is_terminal = os.isatty(self._handle)
        self._source = source
        self._never_waits = stat.S_ISREG(mode) or stat.S_ISDIR(mode)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    async def read(self, stop: asyncio.Event) -> bytes | None:
        """Some bytes; empty at the end; None if ``stop`` is set."""
        while True:
            if not self._never_waits:
                await self._until_readable(stop)
            if stop.is_set():
                return None
            try:
                return os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _unreadable(self._source, error.strerror or "") from error

    async def _until_readable(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(self._handle, readable.set)
        except PermissionError:  # /dev/null and similar files cannot be polled, and never block
            self._never_waits = True
            return
        waits = [asyncio.ensure_future(event.wait()) for event in (readable, stop)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_reader(self._handle)
            for task in waits:
                task.cancel()

    async def read_all(self, stop: asyncio.Event) -> bytes | None:
        """All bytes; None if ``stop`` is set."""
        parts: list[bytes] = []
        while chunk := await self.read(stop):
            parts.append(chunk)
        return None if chunk is None else b"".join(parts)

    async def portions(
        self, end: bytes, stop: asyncio.Event, *, trims: bool = True
    ) -> AsyncIterator[Portion]:
        """Yields whole lines as they arrive, without waiting for a full buffer; the last line may lack its end.

        Lines that end with a newline are text: a byte order mark is left out, and UTF-16 becomes UTF-8. ``trims``: also
        leaves out empty lines, and the carriage return before a newline. Ends when ``stop`` is set.
        """
        number, incomplete = 0, bytearray()
        text = Utf8Text(self._source) if end == b"\n" else None
        chunk: bytes | None = None
        while chunk != b"":
            chunk = await self.read(stop)
            if chunk is None:
                return
            part = chunk if text is None else text.part(chunk)
            if chunk and not part:
                continue
            incomplete += part
            if chunk and end not in part:
                if len(incomplete) > LONGEST_LINE:
                    raise CommandError(
                        f"line {number + 1} is longer than the largest item; see --null", USAGE
                    )
                continue
            *whole, incomplete = incomplete.split(end)
            if not chunk and incomplete:
                whole.append(incomplete)
            for begin in range(0, len(whole), _MOST_LINES):
                if stop.is_set():
                    return
                lines = whole[begin : begin + _MOST_LINES]
                yield _portion(number + 1, lines, trims=trims and end == b"\n")
                number += len(lines)


def _portion(first: int, some: list[bytearray], *, trims: bool) -> Portion:
    lines = (bytes(line).removesuffix(b"\r") if trims else bytes(line) for line in some)
    numbered = tuple((first + n, line) for n, line in enumerate(lines) if line or not trims)
    cut = (first + n for n, line in enumerate(some) if trims and (not line or line.endswith(b"\r")))
    return Portion(first, first + len(some) - 1, numbered, tuple(cut))


def _unreadable(source: str, why: str) -> CommandError:
    return CommandError(f"{source} cannot be read ({why}); name another file, or - for stdin", USAGE)
