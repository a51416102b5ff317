"""`claimq pause`: what it does, and where the pause is shown."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import claimq as library
from claimq_admin.changes.local_user import local_user

Claimq = Callable[..., Any]
QueueDo = Callable[[Callable[[library.ReliableQueue], Coroutine[Any, Any, Any]]], Any]


def test_a_paused_queue_gives_no_claims_until_it_is_resumed(on: Claimq, queue_do: QueueDo) -> None:
    on("enqueue", "q", "a")
    assert on("pause", "q", "-o", "json").json == {"queue": "q", "paused": True}
    assert queue_do(lambda queue: queue.claim(1, wait=0)) == []
    assert on("status", "q").out.splitlines()[2].startswith("q (paused)")
    assert on("resume", "q").out == "q: resumed\n"
    assert len(queue_do(lambda queue: queue.claim(1, wait=0))) == 1


def test_a_pause_shows_who_made_it_when_why_and_until_when(on: Claimq) -> None:
    on("enqueue", "q", "a")
    words = rf"paused by {re.escape(local_user())} since \S+Z until \S+Z \(schema change\)"
    assert re.fullmatch(f"q: {words}\n", on("pause", "q", "--for", "1h", "--reason", "schema\nchange").out)
    assert re.search(f"q: {words}; to end it now: claimq resume q", " ".join(on("status", "q").out.split()))
    pause = on("status", "q", "-o", "json").json["pause"]
    assert pause["until"] - pause["at"] == pytest.approx(3600)
    assert re.search(f"the queue is {words}, so no item is claimed", " ".join(on("doctor", "q").out.split()))
    assert "pause" in on("audit", "q").out
    assert "for 1h: schema" in on("audit", "q").out


def test_a_pause_with_an_end_that_is_over_is_refused(on: Claimq) -> None:
    on("enqueue", "q", "a")
    refused = on("pause", "q", "--until", "2020-01-01T00:00:00Z")
    assert refused.code != 0
    assert "until is over by the clock of the server; give a later instant" in refused.err
    assert not on("status", "q", "-o", "json").json["paused"]
