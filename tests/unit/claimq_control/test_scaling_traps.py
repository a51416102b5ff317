"""Traps of autoscalers that one decision shows: A2, A5, A7, A8, A12 and A15 of the table in bench/scaling.md."""

from __future__ import annotations

from dataclasses import replace

import pytest

from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Estimates, Limit, Observation, ScalingRule, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(max_replicas=100, target_age=30.0)
LEARNED = ScalingState(
    estimates=Estimates.from_json({"busySeconds": 400.0, "ended": 200, "startSeconds": 8.0, "starts": 20})
)


def numbers(
    what: Observation, seconds: int, spec: ScalingSpec = SPEC, state: ScalingState = LEARNED
) -> list[int]:
    """What is decided each second on the same observation, but for the workers, which follow."""
    found: list[int] = []
    for now in range(seconds):
        decision = decide(spec, what, state, float(now))
        assert decision.replicas is not None
        state, ready = decision.state, min(what.ready, decision.replicas)
        what = replace(what, replicas=decision.replicas, ready=ready)
        found.append(decision.replicas)
    return found


def test_a2_one_long_item_keeps_its_worker_while_nothing_waits() -> None:
    held = scaling_input(main=0, busy=1, replicas=3, ready=3, busy_workers=1)
    assert numbers(held, 600)[-1] == 1


def test_a5_delayed_items_of_later_hold_no_worker() -> None:
    # Failed items are no input at all.
    later = scaling_input(main=0, busy=0, replicas=4, ready=4, next_due_in=3600.0)
    assert numbers(later, 600)[-1] == 0


def test_a7_a_clock_that_goes_back_orders_and_removes_nothing_wild() -> None:
    what = scaling_input(main=20, busy=5, replicas=5, ready=5, busy_workers=5, oldest_age=4.0, claimed=100)
    state = decide(SPEC, what, LEARNED, 1000.0).state
    for now in (10.0, 5000.0, 5000.0, -3.0):
        decision = decide(SPEC, replace(what, oldest_age=-2.0), state, now)
        state = decision.state
        assert decision.replicas is not None
        assert 5 <= decision.replicas <= 10


def test_a8_at_the_maximum_the_number_rests_and_the_limit_is_reported() -> None:
    spec, what = (
        replace(SPEC, max_replicas=10),
        scaling_input(main=5000, busy=0, replicas=0, ready=0, oldest_age=1.0),
    )
    assert set(numbers(what, 120, spec)) == {10}
    decision = decide(spec, what, LEARNED, 0.0)
    assert decision.limit is Limit.MAX_REPLICAS
    assert decision.needed > 10


def test_a12_the_first_decision_of_a_new_operator_at_most_doubles() -> None:
    what = scaling_input(main=900, busy=4, replicas=4, ready=4, busy_workers=4, oldest_age=90.0)
    first = decide(SPEC, what, ScalingState(), 0.0)
    assert (first.replicas, first.rule) == (8, ScalingRule.TARGET_AGE)
    assert "at most twice as many" in first.reason
    assert (
        numbers(scaling_input(main=1, busy=0, replicas=9, ready=9, oldest_age=0.0), 6, state=ScalingState())[
            -1
        ]
        == 9
    )


def test_a12_a_new_operator_starts_as_many_as_are_needed_from_none_alone() -> None:
    what = scaling_input(main=900, busy=0, replicas=0, ready=0, oldest_age=1.0)
    assert (decide(SPEC, what, ScalingState(), 0.0).replicas or 0) > 50
    assert (decide(SPEC, replace(what, replicas=1, ready=1), ScalingState(), 0.0).replicas or 0) <= 2


def test_a15_workers_that_stay_pending_are_not_ordered_again() -> None:
    pending = scaling_input(main=200, busy=0, replicas=0, ready=0, oldest_age=60.0)
    ordered = numbers(pending, 600)
    assert len(set(ordered)) == 1
    recovered = replace(pending, main=0, replicas=ordered[-1], ready=ordered[-1], oldest_age=None)
    assert numbers(recovered, 600)[-1] == 0


def test_a4_a_number_that_chance_explains_stays() -> None:
    # Nine workers keep up with the arrivals; ten are there.
    state = ScalingState(estimates=replace(LEARNED.estimates, slow=4.5, fast=4.5))
    what = scaling_input(main=54, busy=10, replicas=10, ready=10, busy_workers=9, oldest_age=5.0)
    assert set(numbers(what, 300, state=state)) == {10}
    fewer = ScalingState(estimates=replace(LEARNED.estimates, slow=3.0, fast=3.0))
    assert numbers(replace(what, main=36), 300, state=fewer)[-1] < 10


# What else the rule promises ----------------------------------------------------------------------------------------


def test_items_longer_than_the_target_are_the_reason_when_the_maximum_is_reached() -> None:
    long_items = ScalingState(estimates=Estimates.from_json({"busySeconds": 12_000.0, "ended": 200}))
    what = scaling_input(main=50, busy=0, replicas=0, ready=0, oldest_age=0.0)
    decision = decide(replace(SPEC, max_replicas=10), what, long_items, 0.0)
    assert (decision.limit, decision.needed) == (Limit.LONG_ITEMS, 50)


def test_a_worker_is_started_before_a_delayed_item_is_due() -> None:
    slow = ScalingState(estimates=replace(LEARNED.estimates, start=40.0, start_variance=0.0))
    idle = scaling_input(main=0, busy=0, replicas=0, ready=0)
    assert decide(SPEC, replace(idle, next_due_in=40.0), slow, 0.0).replicas == 1
    assert decide(SPEC, replace(idle, next_due_in=40.1), slow, 0.0).replicas == 0


def test_a_second_worker_is_ordered_where_the_first_may_start_too_late() -> None:
    unsure = ScalingState(estimates=replace(LEARNED.estimates, start=22.0, start_variance=25.0))
    what = scaling_input(main=1, busy=0, replicas=1, ready=0, starting_for=(7.0,), oldest_age=7.0)
    decision = decide(SPEC, what, unsure, 0.0)
    assert decision.replicas == 2
    assert decision.reason.endswith("2, since a worker may take 34 s to start")
    both = replace(what, replicas=2, starting_for=(10.0, 3.0), oldest_age=10.0)
    assert decide(SPEC, both, unsure, 0.0).replicas == 2
    sure = ScalingState(estimates=replace(unsure.estimates, start_variance=1.0))
    assert decide(SPEC, what, sure, 0.0).replicas == 1


@pytest.mark.parametrize(("unproven", "least", "most"), [(0.0, 60, 75), (3600.0, 100, 200)])
def test_a_service_time_that_was_learned_long_ago_is_doubted(unproven: float, least: int, most: int) -> None:
    state = ScalingState(estimates=replace(LEARNED.estimates, unproven=unproven, start_variance=0.0))
    what = scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0)
    decision = decide(replace(SPEC, max_replicas=1000), what, state, 0.0)
    assert decision.replicas is not None
    assert least <= decision.replicas <= most
    assert ("learned long ago" in decision.reason) == (unproven > 0)


def test_items_that_come_and_end_between_two_observations_keep_the_worker() -> None:
    state, idle = LEARNED, scaling_input(main=0, busy=0, replicas=1, ready=1, claimed=0)
    for now in range(120):
        decision = decide(SPEC, replace(idle, claimed=now), state, float(now))
        state = decision.state
        assert decision.replicas == 1
    assert numbers(replace(idle, claimed=119), 60, state=LEARNED)[-1] == 0


@pytest.mark.parametrize(
    ("ended", "changed_at", "kept"), [(9, 8.0, True), (10, 8.0, False), (10, None, True)]
)
def test_workers_for_an_assumed_service_time_go_when_a_true_one_is_known(
    ended: int, changed_at: float | None, kept: bool
) -> None:
    # Eighty were ordered for items of 3 s, which take less than one. If another process ordered them, they are kept.
    before = replace(Estimates(), at=9.0, main=600, busy=5, claimed=5, ready=5)
    state = ScalingState(seen_at=9.0, wanted=((8.0, 80),), changed_at=changed_at, estimates=before)
    what = scaling_input(
        main=600 - ended,
        busy=5,
        replicas=80,
        ready=5,
        busy_workers=5,
        starting_for=(8.0,) * 75,
        oldest_age=8.0,
        claimed=5 + ended,
    )
    decision = decide(SPEC, what, state, 10.0)
    assert decision.replicas is not None
    assert (decision.replicas == 80) is kept


def test_a_true_service_time_lets_workers_go_once_and_not_at_each_observation() -> None:
    known = replace(Estimates(), at=9.0, claimed=5, ended=10.0, busy_seconds=10.0)
    state = ScalingState(seen_at=9.0, wanted=((8.0, 80),), changed_at=8.0, estimates=known)
    what = scaling_input(main=1, busy=0, replicas=80, ready=80, oldest_age=1.0, claimed=5)
    decision = decide(SPEC, what, state, 10.0)
    assert (decision.replicas, decision.state.estimates.ended) == (80, 10.0)
