"""The waiting-time target: what is learned from observations, and how many workers it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimq_control.manifest import ScalingSpec
from claimq_control.scaling import Estimates, Limit, Observation, ScalingRule, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(max_replicas=100, target_age=30.0)


def learned(*, service: float = 2.0, rate: float = 0.0, start: float = 8.0) -> Estimates:
    """What a queue has learned that has run for a while."""
    stored = {
        "arrivalRate": rate,
        "busySeconds": service * 200,
        "ended": 200,
        "startSeconds": start,
        "startDeviation": 0.0,
        "starts": 20,
    }
    return Estimates.from_json(stored)


def decided(
    what: Observation, estimates: Estimates, spec: ScalingSpec = SPEC
) -> tuple[int | None, ScalingRule]:
    decision = decide(spec, what, ScalingState(estimates=estimates), 0.0)
    return decision.replicas, decision.rule


def busy_queue(main: int, replicas: int, *, age: float = 1.0, **more: Any) -> Observation:
    """A queue whose ready workers all hold an item."""
    values: dict[str, Any] = {"ready": replicas, "busy": replicas, "busy_workers": replicas, **more}
    return scaling_input(main=main, replicas=replicas, oldest_age=age, **values)


def test_a_burst_gets_as_many_workers_as_start_its_last_item_in_time() -> None:
    # 25.5 s are planned for, 8 s pass until a new worker claims: then it starts 1 + 17.5 / 2 = 9.75 items in time.
    assert decided(scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0), learned())[0] == 62


def test_older_items_leave_less_time_and_need_more_workers() -> None:
    young = decided(busy_queue(300, 10, age=1.0), learned())[0]
    old = decided(busy_queue(300, 10, age=10.0), learned())[0]
    assert young is not None
    assert old is not None
    assert old > young


def test_workers_that_are_starting_count_before_others_are_ordered() -> None:
    estimates = learned()
    first, _ = decided(scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0), estimates)
    assert first is not None
    starting = scaling_input(
        main=600,
        busy=0,
        replicas=first,
        ready=0,
        starting_for=(2.0,) * first,
        oldest_age=2.0,
    )
    assert decided(starting, estimates)[0] == first


def test_a_worker_that_has_nearly_started_counts_for_more_than_a_new_one() -> None:
    new, nearly = (
        decided(
            scaling_input(
                main=300,
                busy=0,
                replicas=20,
                ready=0,
                starting_for=(since,) * 16,
                oldest_age=1.0,
            ),
            learned(),
        )[0]
        for since in (0.0, 7.0)
    )
    assert new is not None
    assert nearly is not None
    assert nearly < new


def test_workers_that_never_start_are_not_answered_with_ever_more() -> None:
    what = scaling_input(main=100, busy=0, replicas=1, ready=0, starting_for=(5.0,), oldest_age=50.0)
    state, orders = ScalingState(estimates=learned()), set[int]()
    for now in range(300):
        decision = decide(SPEC, what, state, float(now))
        state, replicas = decision.state, decision.replicas or 0
        orders.add(replicas)
        waited = (float(now),) * replicas
        what = replace(what, replicas=replicas, starting_for=waited, oldest_age=50.0 + now)
    assert max(orders) == min(orders) <= 100


def test_arrivals_keep_as_many_workers_as_little_s_law_says() -> None:
    # Ten items arrive per second and take two: twenty workers keep up.
    spec = replace(SPEC, items_per_replica=None)
    state, now = ScalingState(estimates=learned(rate=10.0)), 0.0
    claimed = 0
    for now in range(120):
        what = busy_queue(120, 20, age=12.0, claimed=claimed)
        decision = decide(spec, what, state, float(now))
        state, claimed = decision.state, claimed + 10
        if now > 60:  # the ages of the waiting items are known by then
            assert decision.replicas is not None
            assert 19 <= decision.replicas <= 22


def test_a_worker_with_many_slots_counts_for_as_many() -> None:
    one = decided(scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0), learned())[0]
    ten = decided(scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0, slots=10), learned())[
        0
    ]
    assert (one, ten) == (62, 7)


def test_a_long_target_needs_few_workers_for_a_few_items() -> None:
    spec = replace(SPEC, target_age=3600.0)
    first = scaling_input(main=8, busy=0, replicas=0, ready=0, oldest_age=0.1, claimed=0)
    assert decided(first, Estimates(), spec)[0] == 1
    empty = decide(spec, scaling_input(main=0, busy=0, replicas=0, ready=0, claimed=0), ScalingState(), 0.0)
    assert decide(spec, first, empty.state, 1.0).replicas == 1  # eight at once are no lasting rate


def test_items_longer_than_the_target_get_a_worker_each() -> None:
    assert decided(busy_queue(5, 3, age=1.0), learned(service=600.0))[0] == 8


def test_delayed_items_that_are_due_soon_are_scaled_for_ahead_of_time() -> None:
    idle = scaling_input(main=0, busy=0, replicas=0, ready=0)
    assert decided(idle, learned())[0] == 0
    assert decided(replace(idle, delayed_soon=1), learned()) == (1, ScalingRule.FROM_ZERO)
    many, rule = decided(replace(idle, delayed_soon=600), learned())
    assert (many, rule) == (62, ScalingRule.TARGET_AGE)


def test_a_paused_queue_keeps_its_workers_and_gets_no_more() -> None:
    decision = decided(
        scaling_input(main=5000, busy=0, replicas=3, ready=3, oldest_age=900.0, is_paused=True), learned()
    )
    assert decision == (3, ScalingRule.PAUSED)


def test_a_paused_queue_with_items_and_no_worker_gets_one() -> None:
    waiting = scaling_input(main=5000, busy=0, replicas=0, ready=0, oldest_age=900.0, is_paused=True)
    assert decided(waiting, learned()) == (1, ScalingRule.PAUSED)
    assert decided(replace(waiting, main=0), learned())[0] == 0


def test_a_queue_that_needs_more_than_max_reports_how_many() -> None:
    spec = replace(SPEC, max_replicas=10)
    decision = decide(
        spec,
        scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0),
        ScalingState(estimates=learned()),
        0.0,
    )
    assert (decision.replicas, decision.limit, decision.needed) == (10, Limit.MAX_REPLICAS, 62)


def test_a_max_that_is_just_enough_is_no_limit() -> None:
    burst = scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0)
    decision = decide(replace(SPEC, max_replicas=62), burst, ScalingState(estimates=learned()), 0.0)
    assert (decision.replicas, decision.limit) == (62, None)


def test_items_as_long_as_the_target_do_not_need_a_worker_each() -> None:
    spec, waiting = (
        replace(SPEC, max_replicas=2),
        scaling_input(main=50, busy=0, replicas=0, ready=0, oldest_age=0.0),
    )
    decision = decide(spec, waiting, ScalingState(estimates=learned(service=30.0)), 0.0)
    assert decision.limit is Limit.MAX_REPLICAS


def test_workers_that_start_slower_than_the_target_are_reported() -> None:
    what = scaling_input(main=1, busy=0, replicas=0, ready=0, oldest_age=0.0)
    state = ScalingState(estimates=learned(start=40.0))
    assert decide(SPEC, what, state, 0.0).limit is Limit.SLOW_START
    assert decide(replace(SPEC, min_replicas=1), what, state, 0.0).limit is None


def test_the_reason_shows_the_arithmetic() -> None:
    decision = decide(
        SPEC,
        busy_queue(300, 10, age=12.0),
        ScalingState(estimates=learned(rate=1.5)),
        0.0,
    )
    assert decision.reason == (
        "300 items waiting, 10 in progress, the oldest 12 s old; 1.5 arrive per second, an item takes 2 s: "
        f"{decision.replicas} workers for the target of 30s"
    )


def test_the_reason_counts_in_singular_and_plural() -> None:
    one, two = (busy_queue(main, 1, age=1.0) for main in (1, 2))
    assert decide(SPEC, one, ScalingState(estimates=learned()), 0.0).reason == (
        "1 item waiting, 1 in progress, the oldest 1 s old; 0 arrive per second, an item takes 2 s: "
        "1 worker for the target of 30s"
    )
    reason = decide(SPEC, two, ScalingState(estimates=learned()), 0.0).reason
    assert reason.startswith("2 items waiting, 1 in progress,")


@pytest.mark.parametrize(("unproven", "is_shown"), [(50.0, False), (200.0, True)])
def test_the_reason_shows_a_doubt_of_a_fifth_or_more(unproven: float, is_shown: bool) -> None:
    burst = scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0)
    state = ScalingState(estimates=replace(learned(), unproven=unproven))
    assert ("that was learned long ago" in decide(SPEC, burst, state, 0.0).reason) is is_shown


# What is learned --------------------------------------------------------------------------------------------------


def observed(estimates: Estimates, now: float, **observation: object) -> Estimates:
    values: dict[str, Any] = {
        "main": 0,
        "busy": 0,
        "claimed": 0,
        "ready": 1,
        "starting_for": (),
        "horizon": 30.0,
        **observation,
    }
    return estimates.after(now, **values)


def test_service_time_is_time_in_progress_by_ended_claims() -> None:
    estimates, claimed = Estimates(), 10
    for now in range(100):
        estimates = observed(estimates, float(now), busy=10, claimed=claimed)
        claimed += 5  # ten in progress, five end and begin each second: each takes two seconds
    assert estimates.service(assumed=60.0) == pytest.approx(2.0, rel=0.01)


def test_items_that_take_four_times_as_long_are_believed_after_forty() -> None:
    estimates, claimed = learned(service=1.0), 10.0
    for now in range(18):
        estimates = observed(estimates, float(now), busy=10, claimed=int(claimed))
        claimed += 2.5
    assert estimates.service(assumed=1.0) == pytest.approx(4.0, rel=0.2)


def test_arrivals_are_what_came_into_main_whatever_left_it() -> None:
    estimates, main, claimed = Estimates(), 0, 0
    for now in range(600):
        estimates = observed(estimates, float(now), main=main, claimed=claimed)
        main, claimed = main + 1, claimed + 3
    assert estimates.arrival_rate == pytest.approx(4.0, rel=0.01)


def test_a_jump_of_the_arrivals_counts_at_once_and_chance_does_not() -> None:
    calm = learned(rate=4.0)
    assert calm.arrival_rate == 4.0
    estimates = observed(calm, 0.0)
    estimates = observed(estimates, 5.0, main=500)
    assert estimates.arrival_rate > 20
    estimates = observed(observed(calm, 0.0), 1.0, main=6)
    assert estimates.arrival_rate < 4.5


def test_the_start_up_time_follows_workers_that_became_ready() -> None:
    estimates = Estimates()
    for now in range(0, 400, 20):
        estimates = observed(estimates, float(now), ready=0, starting_for=(2.0,))
        estimates = observed(estimates, now + 2.0, ready=1)
    assert estimates.start == pytest.approx(3.0, abs=0.5)
    assert estimates.slow_start < 5.0


@pytest.mark.parametrize(("main", "claimed"), [(0, 0), (50, 10)], ids=["flushed", "failed over"])
def test_counters_that_go_backwards_teach_nothing(main: int, claimed: int) -> None:
    before = observed(learned(rate=2.0), 0.0, main=100, busy=4, claimed=1000)
    after = observed(before, 1.0, main=main, busy=0, claimed=claimed)
    assert (after.slow, after.fast) == (before.slow, before.fast)
    assert after.service(1.0) == before.service(1.0)


def test_a_flush_without_a_loss_of_counters_is_no_arrival() -> None:
    before = observed(learned(rate=2.0), 0.0, main=10_000, claimed=1000)
    assert observed(before, 1.0, main=0, claimed=1000).arrival_rate <= 2.0


def test_a_long_gap_teaches_nothing() -> None:
    before = observed(learned(rate=2.0), 0.0, main=0, claimed=0)
    after = observed(before, 3600.0, main=1_000_000, claimed=0)
    assert after.arrival_rate == 2.0


def test_items_that_never_end_do_not_raise_the_service_time_without_bound() -> None:
    estimates = learned(service=2.0)
    for now in range(4000):
        estimates = observed(estimates, float(now), busy=50, claimed=50)
    assert estimates.service(3.0) < 10.0


def test_what_is_learned_survives_the_process() -> None:
    estimates = learned(service=3.0, rate=1.25, start=12.0)
    again = Estimates.from_json(estimates.to_json())
    assert again.service(1.0) == pytest.approx(estimates.service(1.0))
    assert again.arrival_rate == estimates.arrival_rate
    assert again.slow_start == estimates.slow_start


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"arrivalRate": "x", "ended": -1, "busySeconds": None},
        {"startSeconds": float("nan")},
        {"ended": True},
    ],
)
def test_what_was_stored_wrongly_counts_as_absent(stored: dict[str, object]) -> None:
    assert Estimates.from_json(stored) == Estimates.from_json({})
