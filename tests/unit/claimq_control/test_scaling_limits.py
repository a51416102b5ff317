"""Bounds, steps and the window, each by its own rule, and which wish they receive."""

from dataclasses import replace
from typing import Any

import pytest

from claimq_control.manifest import ScaleDownSpec, ScaleUpSpec, ScalingSpec
from claimq_control.scaling import (
    MOST_WANTED,
    Estimates,
    Limit,
    Observation,
    ScalingRule,
    ScalingState,
    StepPeriod,
    decide,
)
from claimq_control.scaling.limits import Wish, down, idle_after, noted, up, window, within_bounds, workers
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(
    max_replicas=100,
    target_age=30.0,
    idle_after=60.0,
    scale_down=ScaleDownSpec(stabilization_window=20.0),
)
STEPS = replace(
    SPEC,
    scale_up=ScaleUpSpec(max_step=3, period=60.0),
    scale_down=ScaleDownSpec(stabilization_window=20.0, max_step=2, period=60.0),
)


def wish(replicas: int, rule: ScalingRule = ScalingRule.TARGET_AGE) -> Wish:
    return Wish(replicas, rule, "why")


def seen(replicas: int, **more: Any) -> Observation:
    return scaling_input(main=0, busy=0, replicas=replicas, ready=replicas, **more)


def wanted(*counts: int, **more: Any) -> ScalingState:
    return ScalingState(wanted=tuple((0.0, count) for count in counts), **more)


def test_times_that_the_manifest_gives_count() -> None:
    state = ScalingState(estimates=Estimates(start=50.0))
    assert (idle_after(SPEC, state), window(SPEC, state)) == (60.0, 20.0)


@pytest.mark.parametrize(
    ("replicas", "bounded", "rule", "reason"),
    [
        (1, 2, ScalingRule.MIN_REPLICAS, "why; minReplicas is 2"),
        (2, 2, ScalingRule.TARGET_AGE, "why"),
        (10, 10, ScalingRule.TARGET_AGE, "why"),
        (11, 10, ScalingRule.MAX_REPLICAS, "why; maxReplicas is 10"),
    ],
)
def test_a_wish_stays_within_min_and_max(replicas: int, bounded: int, rule: ScalingRule, reason: str) -> None:
    spec = replace(SPEC, min_replicas=2, max_replicas=10)
    assert within_bounds(spec, wish(replicas)) == Wish(bounded, rule, reason)


@pytest.mark.parametrize(
    ("current", "to", "now", "ordered"),
    [
        (10, 12, 104.9, 10),
        (10, 12, 105.0, 12),  # a sixth of the target after the last change
        (10, 20, 104.9, 10),
        (10, 21, 104.9, 21),  # more than twice the workers
        (1, 2, 104.9, 1),
        (1, 3, 104.9, 3),
    ],
)
def test_small_steps_up_for_the_target_are_a_sixth_of_it_apart(
    current: int, to: int, now: float, ordered: int
) -> None:
    decision = up(SPEC, seen(current), ScalingState(changed_at=100.0), now, wish(to))
    assert decision.replicas == ordered
    assert ("waiting for a larger step" in decision.reason) == (ordered != to)


def test_small_steps_up_for_another_rule_are_taken_at_once() -> None:
    more = wish(2, ScalingRule.ITEMS_PER_REPLICA)
    assert up(SPEC, seen(1), ScalingState(changed_at=100.0), 100.0, more).replicas == 2
    assert up(SPEC, seen(1), ScalingState(), 100.0, wish(2)).replicas == 2


def test_a_wish_without_patience_does_not_wait_however_short_the_target() -> None:
    assert up(replace(SPEC, target_age=3.0), seen(10), ScalingState(), 100.0, wish(11)).replicas == 11


def test_a_number_that_stays_begins_no_period_of_steps() -> None:
    decision = down(STEPS, seen(10), wanted(10, changed_at=0.0), 0.0, wish(10))
    assert (decision.replicas, decision.rule, decision.state.down) == (10, ScalingRule.TARGET_AGE, None)
    stays = decide(replace(STEPS, items_per_replica=10), scaling_input(15, 0, 2, 2), ScalingState(), 0.0)
    assert (stays.replicas, stays.state.up) == (2, None)


def test_a_step_limit_up_counts_from_the_beginning_of_its_period() -> None:
    first = up(STEPS, seen(5), ScalingState(), 0.0, wish(20))
    assert (first.replicas, first.rule) == (8, ScalingRule.STEP_UP)
    assert first.reason == "why; at most 3 more in 1m"
    assert first.state.up == StepPeriod(0.0, 5)
    assert up(STEPS, seen(8), first.state, 59.9, wish(20)).replicas == 8
    assert up(STEPS, seen(8), first.state, 60.0, wish(20)).replicas == 11
    assert up(STEPS, seen(5), ScalingState(), 0.0, wish(8)).rule is ScalingRule.TARGET_AGE
    assert up(replace(STEPS, min_replicas=9), seen(5), ScalingState(), 0.0, wish(20)).replicas == 9


@pytest.mark.parametrize(
    ("to", "now", "ordered"),
    [
        (7, 159.9, 10),
        (7, 160.0, 7),  # eight windows after the last change
        (6, 19.9, 10),
        (6, 20.0, 6),  # more than three tenths of the workers: one window
        (5, 0.0, 5),  # half of them: at once
        (0, 0.0, 0),
    ],
)
def test_the_smaller_a_step_down_the_longer_after_the_last_change(to: int, now: float, ordered: int) -> None:
    decision = down(SPEC, seen(10), wanted(to, changed_at=0.0), now, wish(to))
    assert decision.replicas == ordered
    assert (decision.rule is ScalingRule.STABILIZING) == (ordered != to)


def test_one_worker_fewer_is_a_small_step_of_three_and_half_of_two() -> None:
    assert down(SPEC, seen(3), wanted(2, changed_at=0.0), 159.9, wish(2)).replicas == 3
    assert down(SPEC, seen(3), wanted(2, changed_at=0.0), 160.0, wish(2)).replicas == 2
    assert down(SPEC, seen(2), wanted(1, changed_at=0.0), 0.0, wish(1)).replicas == 1


def test_two_workers_fewer_are_no_small_step_of_five() -> None:
    assert down(SPEC, seen(5), wanted(3, changed_at=0.0), 19.9, wish(3)).replicas == 5
    assert down(SPEC, seen(5), wanted(3, changed_at=0.0), 20.0, wish(3)).replicas == 3


def test_the_last_worker_goes_after_one_window() -> None:
    assert down(SPEC, seen(1), wanted(0, changed_at=0.0), 20.0, wish(0)).replicas == 0


def test_what_was_wanted_within_the_window_is_kept() -> None:
    decision = down(SPEC, seen(10), wanted(8, 5), 10.0, wish(5))
    assert (decision.replicas, decision.rule) == (8, ScalingRule.STABILIZING)
    assert decision.reason == "why; 8 workers were wanted within the last 20 s"


def test_workers_with_claims_are_kept() -> None:
    decision = down(SPEC, seen(10, busy_workers=7), wanted(5), 10.0, wish(5))
    assert (decision.replicas, decision.rule) == (7, ScalingRule.BUSY_WORKERS)
    assert decision.reason == "why; 7 workers hold claims"
    assert down(SPEC, seen(10, busy_workers=5), wanted(5), 10.0, wish(5)).rule is ScalingRule.TARGET_AGE


def test_a_lowered_max_is_named_as_the_reason() -> None:
    spec = replace(SPEC, max_replicas=10)
    decision = down(spec, seen(12), wanted(10), 0.0, wish(10))
    assert (decision.replicas, decision.rule) == (10, ScalingRule.MAX_REPLICAS)
    assert decision.reason == "maxReplicas is 10, and there are 12"
    assert down(spec, seen(10), wanted(10), 0.0, wish(10)).rule is ScalingRule.TARGET_AGE


def test_a_step_limit_down_counts_from_the_beginning_of_its_period() -> None:
    first = down(STEPS, seen(10), wanted(5), 0.0, wish(5))
    assert (first.replicas, first.rule) == (8, ScalingRule.STEP_DOWN)
    assert first.reason == "why; at most 2 fewer in 1m"
    assert first.state.down == StepPeriod(0.0, 10)
    assert down(STEPS, seen(8), first.state, 59.9, wish(5)).replicas == 8
    assert down(STEPS, seen(8), first.state, 60.0, wish(5)).replicas == 6
    assert down(STEPS, seen(10), wanted(8), 0.0, wish(8)).rule is ScalingRule.TARGET_AGE


def test_the_memory_of_the_window_has_falling_numbers() -> None:
    assert noted(((0.0, 9), (5.0, 7), (8.0, 3)), 10.0, 3, 10.0) == ((5.0, 7), (10.0, 3))


def test_the_memory_of_the_window_is_bounded_without_forgetting_the_highest_number() -> None:
    full = tuple((float(index), 100 - index) for index in range(MOST_WANTED))
    kept = noted(full, 50.0, 1, 1000.0)
    assert (len(kept), kept[0], kept[1], kept[-1]) == (MOST_WANTED, (1.0, 100), (2.0, 98), (50.0, 1))


def test_a_change_long_ago_is_not_recent() -> None:
    assert down(SPEC, seen(10), wanted(5, changed_at=900.0), 1000.0, wish(5)).replicas == 5


def test_a_target_within_max_has_no_limit() -> None:
    decision = decide(SPEC, seen(2), ScalingState(), 0.0)
    waiting = decide(
        SPEC, scaling_input(main=5, busy=0, replicas=2, ready=2, oldest_age=1.0), ScalingState(), 0.0
    )
    assert (decision.limit, decision.needed, waiting.limit) == (None, 0, None)


def test_without_waiting_items_only_the_workers_with_claims_are_needed() -> None:
    look = scaling_input(main=0, busy=2, replicas=2, ready=2, busy_workers=2)
    assert decide(SPEC, look, ScalingState(), 0.0).rule is ScalingRule.WORK_LEFT


def test_a_small_step_up_to_min_does_not_wait() -> None:
    spec = replace(SPEC, min_replicas=15, max_replicas=17)
    assert up(spec, seen(14), ScalingState(changed_at=100.0), 100.0, wish(17)).replicas == 17
    assert up(spec, seen(15), ScalingState(changed_at=100.0), 100.0, wish(17)).replicas == 15


def test_a_queue_whose_limit_cannot_be_met_needs_at_least_one_worker() -> None:
    slow = ScalingState(estimates=Estimates(start=30.1, starts=1.0))
    decision = decide(SPEC, seen(0), slow, 0.0)
    assert (decision.limit, decision.needed) == (Limit.SLOW_START, 1)
    assert (
        decide(SPEC, seen(0), replace(slow, estimates=Estimates(start=30.0, starts=1.0)), 0.0).limit is None
    )
    assert (
        decide(SPEC, seen(0), replace(slow, estimates=Estimates(start=30.1, starts=0.0)), 0.0).limit is None
    )


def test_one_worker_is_singular() -> None:
    assert [workers(count) for count in range(3)] == ["0 workers", "1 worker", "2 workers"]


@pytest.mark.parametrize(
    ("replicas", "age", "has_spare"),
    [(0, 6.0, False), (1, 6.0, True), (1, 5.9, False), (2, 6.0, True), (3, 6.0, False)],
)
def test_a_spare_worker_is_ordered_where_the_only_one_may_start_late(
    replicas: int, age: float, has_spare: bool
) -> None:
    estimates = Estimates(start=20.0, start_variance=64.0, starts=1.0)
    waiting = scaling_input(main=1, busy=0, replicas=replicas, ready=0, oldest_age=age)
    decision = decide(SPEC, waiting, ScalingState(estimates=estimates), 0.0)
    assert ("2, since a worker may take 40 s to start" in decision.reason) == has_spare
