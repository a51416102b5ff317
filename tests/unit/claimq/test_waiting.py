"""What items wait for, as the lengths of a queue show it."""

import pytest

from claimq.limits import Limit, LimitsNow
from claimq.model import COUNTERS, Snapshot, State
from claimq.waiting.reasons import WAITING_COUNTS, Between, waiting_counts

LIMIT = Limit("api", rate="1/s")


@pytest.mark.parametrize(
    ("startable", "paused", "counts"),
    [
        (None, False, {"ready": 7}),
        (None, True, {"paused": 7}),
        (0, False, {"limit": 7, "ready": 0}),
        (3, False, {"limit": 4, "ready": 3}),
        (9, False, {"limit": 0, "ready": 7}),
        (0, True, {"paused": 7}),
    ],
)
def test_each_item_that_waits_is_counted_for_one_reason(
    startable: int | None, paused: bool, counts: dict[str, int]
) -> None:
    snapshot = Snapshot(
        now=100.0,
        seq=1,
        lengths={State.MAIN: 7, State.BUSY: 2, State.DELAYED: 5, State.FAILED: 1},
        ages=dict.fromkeys(State),
        counters=dict.fromkeys(COUNTERS, 0),
        next_due_in=None,
        key_busy=2,
        paused=paused,
        limits=None if startable is None else LimitsNow((LIMIT,), startable, None),
    )
    rest = {"not_due": 3, "paused": 0, "key_busy": 2, "limit": 0, "ready": 0}
    assert waiting_counts(snapshot) == rest | counts
    assert tuple(rest) == WAITING_COUNTS
    assert sum(rest.values()) + 7 == 12


def test_a_bound_is_one_number_where_it_is_exact() -> None:
    assert (str(Between(1200, 1200)), str(Between(0, 1300))) == ("1,200", "0 to 1,300")
