"""Commands as they are sent."""

from collections.abc import Sequence

import pytest

from claimq.redis_store.clients import direct_client
from claimq.redis_store.clients.direct_client import packed

COMMAND = b"*4\r\n$4\r\nECHO\r\n$1\r\n7\r\n$3\r\n1.5\r\n$1\r\nx\r\n"


def test_a_command_has_its_numbers_as_text() -> None:
    assert b"".join(packed(None, ("ECHO", 7, 1.5, b"x"))) == COMMAND


def test_hiredis_gets_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would make them text, and a signal handler that raises at that instant would crash the process."""
    given: list[object] = []

    def pack(words: Sequence[object]) -> bytes:
        given.extend(words)
        return b""

    monkeypatch.setattr(direct_client, "pack", pack)
    packed(None, ("ECHO", 7, 1.5, b"x"))
    assert given == ["ECHO", "7", "1.5", b"x"]
