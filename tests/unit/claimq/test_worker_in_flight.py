"""What a worker holds, while verdicts are under way and the sidecar goes and comes back."""

from contextlib import suppress
from typing import Any

import pytest

from claimq.model import Outcome, Verdict
from claimq.worker import Item
from claimq.worker.in_flight import InFlight

TOKENS = ["w/1", "w/2"]


def claimed(token: str) -> Item:
    client: Any = None
    return Item(client, token, token, b"", None, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0)


@pytest.fixture
def items() -> list[Item]:
    return [claimed(token) for token in TOKENS]


@pytest.fixture
def in_flight(items: list[Item]) -> InFlight[Item]:
    made: InFlight[Item] = InFlight()
    made.add(items)
    return made


def verdicts(items: list[Item]) -> list[Verdict | None]:
    return [item.outcome and item.outcome.verdict for item in items]


def test_what_a_sidecar_does_not_hold_is_lost(in_flight: InFlight[Item], items: list[Item]) -> None:
    in_flight.note_lost(["w/2", "w/unknown"])
    assert verdicts(items) == [None, Verdict.LOST]
    assert in_flight.tokens() == ["w/1"]


def test_the_reply_to_a_verdict_decides_whether_its_claim_was_lost(
    in_flight: InFlight[Item], items: list[Item]
) -> None:
    with in_flight.ending(["w/1"]):
        in_flight.note_lost(TOKENS)
        in_flight.note_outcomes([Outcome("w/1", Verdict.DONE)])
    assert verdicts(items) == [Verdict.DONE, Verdict.LOST]
    assert in_flight.items() == []


def test_a_claim_whose_verdict_got_no_reply_is_lost(in_flight: InFlight[Item], items: list[Item]) -> None:
    with suppress(ConnectionError), in_flight.ending(["w/1"]):
        in_flight.note_lost(["w/1"])
        assert verdicts(items) == [None, None]
        raise ConnectionError
    assert verdicts(items) == [Verdict.LOST, None]
    assert in_flight.tokens() == ["w/2"]


def test_a_verdict_without_a_reply_leaves_what_the_sidecar_still_holds(
    in_flight: InFlight[Item], items: list[Item]
) -> None:
    with suppress(ConnectionError), in_flight.ending(TOKENS):
        raise ConnectionError
    assert verdicts(items) == [None, None]
    assert in_flight.items() == items
