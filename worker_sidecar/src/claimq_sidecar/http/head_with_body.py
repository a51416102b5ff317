"""Sends the head of a response together with a small body."""

from __future__ import annotations

import asyncio
from typing import Final

_CONTINUE: Final = b"HTTP/1.1 100 "
_SMALL_BODY: Final = 16 * 1024


class HeadWithBody:
    """The transport as one response sees it: its head is sent together with a small body.

    uvicorn writes them one after the other, and the client would be woken for each.
    """

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_begun = False

    def write(self, data: bytes) -> None:
        """Writes, but keeps the head for the next call."""
        if not self._is_begun and not data.startswith(_CONTINUE):
            self._is_begun, self._head = True, data
            return
        head, self._head = self._head, b""
        if head and len(data) <= _SMALL_BODY:
            data, head = head + data, b""
        if head:
            self._transport.write(head)
        self._transport.write(data)

    def is_closing(self) -> bool:
        """As the transport's."""
        return self._transport.is_closing()

    def close(self) -> None:
        """As the transport's."""
        self._transport.close()
