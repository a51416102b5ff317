"""Passes the output of programs on to stdout and stderr, and keeps the end of it."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from claimq_admin.escaping import safe

KEPT_BYTES = 2000
"""Of the output of a program, stdout and stderr together. The library keeps 2,000 characters of an error detail."""
_LONGEST_LINE = 150
_TRACEBACK = "Traceback (most recent call last)"
_CHUNK = 64 * 1024
"""A longer line is passed on in parts."""
_CLOSE_SECONDS = 2.0
_log = logging.getLogger("claimq.cli.output")


class Tail:
    """The last bytes of an output, and the first and last ones of stderr."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._errors = bytearray()
        self._last_errors = b""
        self._is_cut = False

    def add(self, data: bytes, *, is_stderr: bool) -> None:
        """Adds to the end."""
        if is_stderr:
            self._errors += data[: KEPT_BYTES - len(self._errors)]
            self._last_errors = (self._last_errors + data)[-KEPT_BYTES:]
        self._bytes += data
        if len(self._bytes) > KEPT_BYTES:
            del self._bytes[:-KEPT_BYTES]
            self._is_cut = True

    @property
    def text(self) -> str:
        """As text, from the first whole character on; bytes that are not UTF-8 become replacement characters."""
        tail = bytes(self._bytes)
        if self._is_cut:
            tail = tail.lstrip(bytes(range(0x80, 0xC0)))
        return tail.decode("utf-8", "replace")

    @property
    def error_line(self) -> str:
        """The line of stderr that says most about a failure: the first one, or the last one of a traceback of Python.
        Empty if the program wrote nothing to stderr."""
        first, last = (part.decode("utf-8", "replace") for part in (self._errors, self._last_errors))
        lines = last.split("\n")[::-1] if _TRACEBACK in last else first.split("\n")
        return next((line.strip()[:_LONGEST_LINE] for line in lines if line.strip()), "")


class Sink:
    """Writes to a file descriptor in a thread of its own. So a slow reader never blocks the event loop, which renews
    leases. On a terminal unprintable characters are escaped. Without a reader the output is discarded.
    """

    def __init__(self, fd: int, name: str) -> None:
        self._fd, self._name = fd, name
        self._is_terminal = os.isatty(fd)
        self._parts: queue.SimpleQueue[tuple[bytes, Callable[[], object]] | None] = queue.SimpleQueue()
        self._has_reader = True
        self._thread = threading.Thread(target=self._write_all, name=f"claimq-{name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Waits until everything is written, at most two seconds."""
        self._parts.put(None)
        self._thread.join(_CLOSE_SECONDS)

    async def write(self, data: bytes) -> None:
        """Returns when the data is written."""
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        self._parts.put((data, lambda: loop.call_soon_threadsafe(written.set)))
        await written.wait()

    def write_later(self, data: bytes) -> None:
        """Returns at once."""
        self._parts.put((data, lambda: None))

    def _write_all(self) -> None:
        while (part := self._parts.get()) is not None:
            chunk, when_written = part
            self._write(_escaped(chunk) if self._is_terminal else chunk)
            with suppress(RuntimeError):  # the loop is closed
                when_written()

    def _write(self, chunk: bytes) -> None:
        try:
            while chunk and self._has_reader:
                chunk = chunk[os.write(self._fd, chunk) :]
        except OSError as error:
            self._has_reader = False
            _log.warning(
                "cannot write to %s (%s); discarding the programs' output", self._name, error.strerror
            )


def _escaped(chunk: bytes) -> bytes:
    text = chunk.decode("utf-8", "backslashreplace")
    return "\n".join(safe(line.expandtabs()) for line in text.split("\n")).encode()


class OutputPipe:
    """A pipe from a program to a sink. Whole lines are passed on, so that programs do not share lines."""

    def __init__(self, sink: Sink, tail: Tail, *, is_stderr: bool = False) -> None:
        self._sink, self._tail, self._is_stderr = sink, tail, is_stderr
        read_end, self.write_end = os.pipe()
        self._file = os.fdopen(read_end, "rb", 0)

    def close(self) -> None:
        """Closes both ends, if the program was not started."""
        os.close(self.write_end)
        self._file.close()

    async def relay(self) -> None:
        """Closes the write end of this process, and passes the output on until the last process has closed its own."""
        os.close(self.write_end)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._file)
        waiting = b""
        try:
            while chunk := await reader.read(_CHUNK):
                self._tail.add(chunk, is_stderr=self._is_stderr)
                waiting += chunk
                end = len(waiting) if len(waiting) >= _CHUNK else waiting.rfind(b"\n") + 1
                if end:
                    lines, waiting = waiting[:end], waiting[end:]
                    await self._sink.write(lines)
        finally:
            transport.close()
            if waiting:
                self._sink.write_later(waiting)
