"""Items that loops have received ahead, and the permits that they read."""

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from claimq.worker.in_flight import InFlight
from claimq.worker.item import Item
from claimq.worker.loops.ahead import Ahead, Room


class Fifo:
    """Stands where the sidecar writes permits."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def permit(self, *numbers: int) -> None:
        os.write(self.fd, b"".join(struct.pack("=Q", number) for number in numbers))

    def take_back(self) -> None:
        os.read(self.fd, 4096)


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Fifo]:
    made = Fifo(tmp_path / "s.fifo")
    yield made
    os.close(made.fd)


@pytest.fixture
def gone() -> list[Item]:
    """What the sidecar has taken back."""
    return []


@pytest.fixture
def back() -> list[Item]:
    """What was given back."""
    return []


@pytest.fixture
def ahead(fifo: Fifo, gone: list[Item], back: list[Item]) -> Iterator[Ahead[Item]]:
    made: Ahead[Item] = Ahead(gone.extend, back.extend)
    made.begin_session("session", str(fifo.path.with_name("s")), str(fifo.path))
    yield made
    made.end_session()


def items(*texts: str, crash_count: int = 0) -> list[Item]:
    client: Any = None
    return [
        Item(client, text, text, text.encode(), None, 0, 0, crash_count, 0, 0.0, 0.0, 0.0, 30.0)
        for text in texts
    ]


def receive(ahead: Ahead[Item], first: int, *texts: str, asked_ago: float = 0.0) -> None:
    room = Room("session", len(texts), 9, time.monotonic() - asked_ago)
    assert ahead.add(items(*texts), room, first, 9) == []


def taken(ahead: Ahead[Item]) -> list[str]:
    texts: list[str] = []
    while (item := ahead.take()) is not None:
        texts.append(item.text)
    return texts


def test_an_item_begins_whose_permit_was_read_before_its_reply(
    ahead: Ahead[Item], fifo: Fifo, gone: list[Item]
) -> None:
    fifo.permit(1, 2)
    receive(ahead, 1, "a", "b")
    fifo.take_back()
    fifo.permit(3, 4)
    assert taken(ahead) == []
    receive(ahead, 3, "c", "d")
    assert taken(ahead) == ["c", "d"]
    assert [item.text for item in gone] == ["a", "b"]


def test_permits_of_a_reply_that_never_came_are_passed_over(ahead: Ahead[Item], fifo: Fifo) -> None:
    fifo.permit(1, 2, 3)
    receive(ahead, 3, "c")
    assert taken(ahead) == ["c"]


def test_an_item_asked_for_half_a_lease_ago_goes_back_when_the_next_begins(
    ahead: Ahead[Item], fifo: Fifo, back: list[Item]
) -> None:
    fifo.permit(1, 2, 3)
    receive(ahead, 1, "late", asked_ago=15.5)
    receive(ahead, 2, "in time", "next", asked_ago=1.0)
    item = ahead.take()
    assert (item and item.text, [late.text for late in back]) == ("in time", ["late"])
    assert taken(ahead) == ["next"]


def test_the_end_of_a_session_gives_back_what_no_loop_has_begun(ahead: Ahead[Item], fifo: Fifo) -> None:
    fifo.permit(1, 2, 3)
    receive(ahead, 1, "a", "b", "c")
    begun = ahead.take()
    assert begun is not None
    fifo.take_back()
    assert [item.text for item in ahead.end_session()] == ["b", "c"]
    assert taken(ahead) == []


def test_a_new_session_takes_over_an_item_whose_permit_was_read(ahead: Ahead[Item], fifo: Fifo) -> None:
    fifo.permit(1, 2)
    both, in_flight = items("a", "b"), InFlight[Item]()
    for item in both:
        item.is_begun = False  # until the loop has it, which may wait for verdicts
    in_flight.add(both)
    ahead.add(both, Room("session", 2, 1, time.monotonic()), 1, 1)
    assert ahead.take() is both[0]
    assert in_flight.tokens() == ["a"]


def test_an_item_that_has_crashed_a_worker_is_seen_before_its_permit(ahead: Ahead[Item], fifo: Fifo) -> None:
    fifo.permit(1)
    before = ahead.is_next_suspect
    ahead.add(items("a", crash_count=1), Room("session", 1, 1, time.monotonic()), 1, 1)
    assert (before, ahead.is_next_suspect) == (False, True)
    assert len(os.read(fifo.fd, 8)) == 8
