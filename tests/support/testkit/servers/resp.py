"""The servers' wire format (RESP2 and RESP3), as far as the kit needs it: to ask, and to count what passes."""

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

Reply: TypeAlias = "bytes | int | list[Reply] | ReplyError | None"
Word: TypeAlias = "str | bytes | float"
Words: TypeAlias = "tuple[Word, ...]"
Answer = Callable[[list[bytes]], bytes]
"""What an imitation of a server answers to a command: bytes of the wire format."""

LINE_TYPES = b"+-:_,#("
BLOB_TYPES = b"$=!"
MANY_TYPES = {ord("*"): 1, ord("~"): 1, ord(">"): 1, ord("%"): 2}
PUSH = b">"


class ReplyError(Exception):
    """The server's own "-ERR ..." as a value; `call` raises it."""


class Incomplete(Exception):
    """There are more bytes to come."""


def request(words: Words) -> bytes:
    """A command as the server wants it."""
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def parse(buffer: bytes, start: int = 0) -> tuple[Reply, int]:
    """The value that begins at `start`, and where the next begins. Incomplete when its end is not there yet."""
    end = buffer.find(b"\r\n", start)
    if end < 0:
        raise Incomplete
    kind, line, after = buffer[start], buffer[start + 1 : end], end + 2
    if kind in BLOB_TYPES:
        return _blob(buffer, int(line), after)
    if kind in MANY_TYPES:
        return _many(buffer, int(line) * MANY_TYPES[kind], after)
    if kind not in LINE_TYPES:
        raise ValueError(f"not RESP: {buffer[start : start + 40]!r}")
    if kind == ord("-"):
        return ReplyError(line.decode(errors="replace")), after
    if kind == ord(":"):
        return int(line), after
    return (None if kind == ord("_") else line), after


def _blob(buffer: bytes, length: int, start: int) -> tuple[Reply, int]:
    if length < 0:
        return None, start
    if len(buffer) < start + length + 2:
        raise Incomplete
    return buffer[start : start + length], start + length + 2


def _many(buffer: bytes, count: int, start: int) -> tuple[Reply, int]:
    if count < 0:
        return None, start
    values: list[Reply] = []
    for _ in range(count):
        value, start = parse(buffer, start)
        values.append(value)
    return values, start


class Frames:
    """Cuts a stream of bytes into whole RESP values."""

    def __init__(self) -> None:
        """Starts with nothing."""
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[bytes, Reply]]:
        """Takes more of the stream; returns each value that is whole now: its raw bytes and what it says."""
        self._rest += data
        frames: list[tuple[bytes, Reply]] = []
        start = 0
        while start < len(self._rest):
            try:
                value, end = parse(self._rest, start)
            except Incomplete:
                break
            frames.append((self._rest[start:end], value))
            start = end
        self._rest = self._rest[start:]
        return frames


class Connection:
    """One blocking connection to a server's Unix socket. OSError when it does not answer in time."""

    def __init__(self, path: Path, timeout: float) -> None:
        """Connects."""
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(timeout)
        self._frames = Frames()
        try:
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise

    def call(self, *words: Word) -> Reply:
        """Sends one command and returns its reply; raises ReplyError when the server refuses it."""
        (reply,) = self.calls([words])
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def calls(self, commands: Sequence[Words]) -> list[Reply]:
        """Sends commands together and returns their replies, refusals among them."""
        self._socket.sendall(b"".join(map(request, commands)))
        replies: list[Reply] = []
        while len(replies) < len(commands):
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            replies += [value for _, value in self._frames.feed(data)]
        return replies

    def close(self) -> None:
        """Closes it."""
        self._socket.close()
