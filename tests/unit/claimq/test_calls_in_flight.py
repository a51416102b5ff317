"""When calls that share what waits may begin: one at a time, another beside a late one, at most four."""

import asyncio

import pytest

from claimq.concurrency import calls_in_flight
from claimq.concurrency.calls_in_flight import CallsInFlight


class Calls(CallsInFlight):
    """Notes when it asks for the next call."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        super().__init__(self.asked.set)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(calls_in_flight, "LATE_SECONDS", 3600.0)
    return monkeypatch


async def test_the_next_call_begins_when_the_latest_has_ended(patience: pytest.MonkeyPatch) -> None:
    calls = Calls()
    assert calls.may_begin()
    number = calls.begin()
    assert not calls.may_begin()
    assert not calls.asked.is_set()
    calls.end(number)
    assert calls.asked.is_set()
    assert calls.may_begin()
    assert calls.count == 0


async def test_the_next_call_begins_beside_one_that_is_late(patience: pytest.MonkeyPatch) -> None:
    patience.setattr(calls_in_flight, "LATE_SECONDS", 0.02)
    calls = Calls()
    calls.begin()
    while not calls.may_begin():
        await calls.asked.wait()
    assert calls.count == 1


async def test_the_end_of_a_late_call_is_not_that_of_the_latest(patience: pytest.MonkeyPatch) -> None:
    calls = Calls()
    patience.setattr(calls_in_flight, "LATE_SECONDS", 0.0)
    late = calls.begin()
    patience.setattr(calls_in_flight, "LATE_SECONDS", 3600.0)
    latest = calls.begin()
    calls.end(late)
    assert not calls.may_begin()
    calls.end(latest)
    assert calls.may_begin()


async def test_the_end_of_the_latest_call_lets_the_next_begin_beside_late_ones(
    patience: pytest.MonkeyPatch,
) -> None:
    calls = Calls()
    patience.setattr(calls_in_flight, "LATE_SECONDS", 0.0)
    calls.begin()
    patience.setattr(calls_in_flight, "LATE_SECONDS", 3600.0)
    for _ in range(3):
        assert calls.may_begin(), "a late call delays none"
        calls.end(calls.begin())
    assert calls.count == 1


async def test_there_are_four_calls_at_most_however_late_they_are(patience: pytest.MonkeyPatch) -> None:
    patience.setattr(calls_in_flight, "LATE_SECONDS", 0.0)
    calls = Calls()
    numbers = [calls.begin() for _ in range(4)]
    assert not calls.may_begin()
    calls.end(numbers[1])
    assert calls.may_begin()
