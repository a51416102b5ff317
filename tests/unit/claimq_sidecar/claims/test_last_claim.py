"""When a claim begins with the wait of the one before it, and when it asks first."""

from typing import Any

import pytest

from claimq.model import Claim, Item
from claimq.queue.claiming import Claimed
from claimq_sidecar.claims.client import Connection
from claimq_sidecar.claims.last_claim import LastClaim
from claimq_sidecar.http.connection.shortcuts import KEY
from claimq_sidecar.http.router import Exchange

NOTHING = Claimed([], poll=1.0)
CLAIM = Claim("w/1.aaaaaaaa", Item("x", b"x", enqueued_at=1.0, first_enqueued_at=1.0), "w", 0.0, 30.0)


def test_a_claim_goes_on_with_the_wait_of_the_last_one_once() -> None:
    last = LastClaim()
    last.note(NOTHING)
    assert last.is_fresh
    assert last.take() is NOTHING
    assert last.take() is None


@pytest.mark.parametrize(
    "found",
    [
        Claimed([CLAIM]),
        Claimed([], again=True),
        Claimed([], is_held_back=True),
        Claimed([], poll=1.0, next_due_in=1.9),
    ],
)
def test_a_claim_asks_first_after_one_that_found_more_than_nothing(found: Claimed) -> None:
    last = LastClaim()
    last.note(found)
    assert not last.is_fresh
    assert last.take() is None


def test_a_delayed_item_of_an_hour_changes_nothing() -> None:
    last = LastClaim()
    last.note(Claimed([], poll=1.0, next_due_in=3600.0))
    assert last.is_fresh


def test_a_claim_asks_first_some_time_after_the_last_one() -> None:
    times = [100.0, 100.2, 100.3, 100.3]
    last = LastClaim(lambda: times.pop(0))
    last.note(NOTHING)
    assert [last.is_fresh, last.is_fresh] == [True, False]
    assert last.take() is None


@pytest.mark.parametrize(
    ("path", "goes_on"), [("/v1/claim", True), ("/v1/enqueue", False), ("/v1/fail", False)]
)
def test_a_claim_asks_first_after_another_request_of_its_connection(path: str, goes_on: bool) -> None:
    connection = Connection()
    connection.last_claim.note(NOTHING)
    scope: dict[str, Any] = {"path": path, "method": "POST", "headers": [], KEY: connection}

    async def unused(*_: object) -> Any:
        raise AssertionError

    Exchange(scope, unused, unused, 1000)
    assert connection.last_claim.is_fresh is goes_on
