"""When a queue stands still, and the sentence about it."""

from dataclasses import replace
from typing import Any

import pytest

from claimq.limits import Limit, LimitsNow, TemporaryLimit
from claimq.model import Snapshot, State
from claimq_control.decide.standstill import held_back_note, long_item, standstill, still_since
from testkit.kubernetes.kubernetes_objects import snapshot

CLAIMED_AT = 1_800_000_000.0
SET = "items wait for the limits of the queue: one:busy=1; one is set until 2027-01-15T09:00:00Z by ann (API down)"
HELD_BACK = (
    "items wait for the limits of the queue: api:rate=1/h; the next one may start at 2027-01-15T08:30:05Z"
)
TOKEN = "orders-6c9d.1/1800000000000000.AbCdEfGh"


def seen(after: float, *, main: int = 3, waited: float = 5000.0, **more: Any) -> Snapshot:
    """A look so many seconds after the only claim."""
    fields: dict[str, Any] = {"counters": {"done": 1}, **more}
    look = snapshot(
        main=main,
        busy=1,
        age=waited,
        now=CLAIMED_AT + after,
        moved_at=CLAIMED_AT,
        oldest_claim=TOKEN,
        oldest_item="order-7",
        **fields,
    )
    look.ages[State.BUSY] = after
    return look


def test_the_sentence_names_the_worker_the_item_and_the_command() -> None:
    assert standstill(seen(61), "claimq -n shop drain orders") == (
        "no progress since 2027-01-15T08:00:00Z: items wait, and orders-6c9d.1 has held the item order-7 since "
        "2027-01-15T08:00:00Z; see the log of orders-6c9d.1, and if it hangs, replace it: "
        "claimq -n shop drain orders orders-6c9d.1"
    )


def test_a_worker_in_a_pod_is_named_as_its_pod_and_the_claims_are_counted() -> None:
    look = seen(61)
    pod = "orders-worker-6c9d-x7k2p"
    look = replace(
        look,
        oldest_claim=f"{pod}.421d97e8-7bdd-4a36-a14c-50d27778a6a2.1795832074464/1800000000000000.AbCdEfGh",
    )
    look.lengths[State.BUSY] = 2
    assert standstill(look, "claimq -n shop drain orders") == (
        f"no progress since 2027-01-15T08:00:00Z: items wait, and {pod} has held the item order-7 since "
        f"2027-01-15T08:00:00Z, the first of 2 in progress; see the log of {pod}, and if it hangs, replace it: "
        f"claimq -n shop drain orders {pod}"
    )


def test_all_workers_with_items_are_named_up_to_a_bound() -> None:
    look = replace(seen(61), holders=("w3", TOKEN.partition("/")[0], "w2"))
    one = standstill(seen(61), "claimq drain q")
    assert standstill(look, "claimq drain q") == (
        f"{one}; the same for the others with items: claimq drain q w2; claimq drain q w3"
    )
    many = replace(look, holders=tuple(f"w{number}" for number in range(10, 20)))
    assert standstill(many, "claimq drain q").endswith("; claimq drain q w13 and 6 more")


@pytest.mark.parametrize(
    ("look", "stands_still"),
    [
        (seen(61), True),
        (seen(60), False),
        (seen(61, main=0), False),
        (seen(61, paused=True), False),
        (seen(300, longest=300.0), False),
        (seen(301, longest=300.0), True),
        (seen(61, waited=59.0), False),
        (seen(600, counters={}), False),
        (seen(601, counters={}), True),
        (seen(61, counters={"fails": 1}), True),
        (seen(3660, limits=LimitsNow((Limit("api", rate="1/h"),), 0, 1.0)), False),
        (seen(3661, limits=LimitsNow((Limit("api", rate="1/h"),), 1, None)), True),
        (seen(61, limits=LimitsNow((Limit("licences", busy=1),), 0, None)), True),
    ],
    ids=[
        "still",
        "a minute",
        "nothing waits",
        "paused",
        "long items",
        "longer than long items",
        "came lately",
        "the first item",
        "long for a first item",
        "after a failure",
        "one item an hour",
        "none in an hour",
        "a bound that a claim fills",
    ],
)
def test_a_queue_stands_still_when_nothing_was_claimed_for_longer_than_items_take(
    look: Snapshot, stands_still: bool
) -> None:
    assert (still_since(look) is not None, standstill(look, "") != "") == (stands_still, stands_still)


def test_the_sentence_stays_the_same_while_the_queue_stands_still() -> None:
    assert standstill(seen(61), "") == standstill(seen(600.123, main=9), "")


def test_a_queue_without_claims_has_no_sentence_about_one() -> None:
    look = snapshot(main=3, age=500.0, now=CLAIMED_AT + 500, moved_at=None)
    assert still_since(look) == CLAIMED_AT
    assert standstill(look, "") == ""


@pytest.mark.parametrize(
    ("look", "is_long"),
    [
        (seen(600, main=0), False),
        (seen(601, main=0), True),
        (seen(900, main=0, longest=300.0), False),
        (seen(901, main=0, longest=300.0), True),
        (seen(600, main=0, counters={}), False),
        (seen(601, main=0, counters={}), True),
        (replace(seen(601, main=0), oldest_claim=""), False),
    ],
    ids=[
        "ten minutes",
        "longer",
        "thrice the longest",
        "much longer",
        "the first item",
        "long for it",
        "no claim",
    ],
)
def test_an_item_is_long_if_it_takes_much_longer_than_others_lately(look: Snapshot, is_long: bool) -> None:
    assert (long_item(look, "") != "") == is_long


def test_a_long_item_is_named_with_its_worker_and_what_helps() -> None:
    assert long_item(seen(601, main=0), "claimq drain q") == (
        "long item: orders-6c9d.1 has held the item order-7 since 2027-01-15T08:00:00Z, much longer than items take; "
        "see the log of orders-6c9d.1, and if it hangs, replace it: claimq drain q orders-6c9d.1; "
        "with processingTimeout set, the app of such an item is killed"
    )


@pytest.mark.parametrize(
    ("look", "note"),
    [
        (
            seen(5, limits=LimitsNow((Limit("api", rate="1/h"), Limit("licences", busy=2)), 0, 1800.0)),
            HELD_BACK,
        ),
        (
            seen(5, limits=LimitsNow((Limit("api", rate="9/s"),), 0, 0.1)),
            "items wait for the limits of the queue: api:rate=9/s",
        ),
        (
            seen(
                5,
                limits=LimitsNow((Limit("api", rate="9/s"), Limit("one", busy=1)), 0, None, {"api": 7}),
                temporary_limits=(
                    TemporaryLimit("api", None, 1_800_003_600.0),
                    TemporaryLimit("one", Limit("one", busy=1), 1_800_003_600.0, "ann", "API\ndown"),
                ),
            ),
            SET,
        ),
        (seen(5, limits=LimitsNow((Limit("api", rate="9/s"),), 1, None)), ""),
        (seen(5, main=0, limits=LimitsNow((Limit("api", rate="1/h"),), 0, 1800.0)), ""),
        (seen(5), ""),
    ],
    ids=["an hour", "soon", "for a time", "one may start", "nothing waits", "no limits"],
)
def test_a_note_says_that_limits_hold_items_back(look: Snapshot, note: str) -> None:
    assert held_back_note(look) == note
