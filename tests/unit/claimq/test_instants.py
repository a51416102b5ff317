"""The one form of an instant in tables and sentences."""

import time
from collections.abc import Iterator

import pytest

from claimq.limits import Pause
from claimq.waiting.texts import instant_text, pause_text

AT = 1_800_000_000.0


@pytest.fixture(params=["UTC0", "IST-5:30", "NST3:30"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this machine."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_an_instant_is_in_the_zone_of_the_machine_with_its_offset(zone: str) -> None:
    shown = {
        "UTC0": "2027-01-15T08:00:00Z",
        "IST-5:30": "2027-01-15T13:30:00+05:30",
        "NST3:30": "2027-01-15T04:30:00-03:30",
    }
    assert instant_text(AT + 0.7) == shown[zone]
    assert pause_text(Pause(by="ann", at=AT)) == f"paused by ann since {shown[zone]} until it is resumed"


def test_the_last_instant_that_an_item_may_have_is_shown(zone: str) -> None:
    assert instant_text(253_402_300_799.0).startswith("9999-12-31T")
