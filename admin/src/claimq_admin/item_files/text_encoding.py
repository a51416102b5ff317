"""Turns text that begins with a byte order mark into UTF-8 without one."""

from __future__ import annotations

import codecs
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

from claimq_admin.errors import USAGE, CommandError

MARKS = (BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)
"""What a text may begin with that is not part of its first line."""


class Utf8Text:
    """The text of a file in UTF-8, from its parts. Without a mark the bytes stay as they are."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._head: bytes | None = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def part(self, chunk: bytes) -> bytes:
        """The next part; ``got`` is empty at the end. An empty result before the end means that more is needed.
        CommandError for text that begins as UTF-16 and is none."""
        if self._head is not None:
            self._head += chunk
            if chunk and any(mark.startswith(self._head) and mark != self._head for mark in MARKS):
                return b""
            chunk, self._head = self._begun(self._head), None
            if not chunk and self._decoder is None:
                return chunk
        if self._decoder is None:
            return chunk
        try:
            return self._decoder.decode(chunk, final=not chunk).encode()
        except UnicodeError:
            raise CommandError(
                f"{self._source} begins with the mark of UTF-16 and has other bytes; convert it to UTF-8",
                USAGE,
            ) from None

    def _begun(self, head: bytes) -> bytes:
        if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
            self._decoder = codecs.getincrementaldecoder("utf-16")()
        return head.removeprefix(BOM_UTF8)
