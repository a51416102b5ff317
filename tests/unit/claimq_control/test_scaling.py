"""The decision about the number of workers: examples, one for each rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from claimq.limits import Limit, LimitsNow
from claimq_control.manifest import ScaleDownSpec, ScaleUpSpec, ScalingMode, ScalingSpec
from claimq_control.scaling import (
    MOST_WANTED,
    Decision,
    Estimates,
    Observation,
    ScalingRule,
    ScalingState,
    decide,
)
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(
    max_replicas=10,
    items_per_replica=10,
    target_age=30.0,
    idle_after=60.0,
    scale_down=ScaleDownSpec(stabilization_window=20.0),
)
EMPTY = ScalingState()
SHORT_ITEMS = ScalingState(estimates=Estimates.from_json({"busySeconds": 20.0, "ended": 200}))
"""A queue has learned that its items take a tenth of a second."""


def seen(main: int = 0, replicas: int = 0, **more: float | None) -> Observation:
    values: dict[str, Any] = {"busy": 0, "ready": replicas, "oldest_age": 1.0 if main else None, **more}
    return scaling_input(main=main, replicas=replicas, **values)


def run(
    spec: ScalingSpec, what: Observation | None, until: float, start: float = 0.0, state: ScalingState = EMPTY
) -> Decision:
    """The last of the decisions made each second on the same observation but for the replicas, which follow."""
    decision = decide(spec, what, state, start)
    now = start
    while now < until:
        if what is not None and decision.replicas is not None:
            what = replace(what, replicas=decision.replicas, ready=decision.replicas)
        now += 1
        decision = decide(spec, what, decision.state, now)
    return decision


def test_items_per_replica_asks_for_enough_workers_at_once() -> None:
    decision = decide(SPEC, seen(main=41, replicas=1), SHORT_ITEMS, 0.0)
    assert (decision.replicas, decision.rule) == (5, ScalingRule.ITEMS_PER_REPLICA)
    assert decision.reason == "41 items waiting, 0 in progress at 10 per worker need 5 workers"


def test_items_in_flight_count_as_work() -> None:
    assert decide(SPEC, seen(main=5, busy=16, replicas=2, busy_workers=2), EMPTY, 0.0).replicas == 3


def test_the_first_item_starts_a_worker_at_once() -> None:
    decision = decide(SPEC, seen(main=1), EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (1, ScalingRule.FROM_ZERO)


def test_two_workers_are_started_from_none_if_the_items_need_two() -> None:
    decision = decide(SPEC, seen(main=11), SHORT_ITEMS, 0.0)
    assert (decision.replicas, decision.rule) == (2, ScalingRule.ITEMS_PER_REPLICA)


def test_items_per_replica_is_named_where_both_rules_ask_for_the_same() -> None:
    decision = decide(SPEC, seen(main=1, replicas=1), SHORT_ITEMS, 0.0)
    assert (decision.replicas, decision.rule) == (1, ScalingRule.ITEMS_PER_REPLICA)


def test_a_delayed_item_that_is_due_starts_a_worker() -> None:
    assert decide(SPEC, seen(delayed_due=1), EMPTY, 0.0).replicas == 1


def test_an_empty_queue_without_workers_stays_without() -> None:
    decision = decide(SPEC, seen(), EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (0, ScalingRule.IDLE)


def test_items_held_by_workers_that_are_leaving_start_no_new_ones() -> None:
    assert decide(SPEC, seen(busy=50, busy_workers=5), EMPTY, 0.0).replicas == 0
    assert decide(SPEC, seen(busy=50), EMPTY, 0.0).replicas == 0


def test_max_limits_and_says_so() -> None:
    decision = decide(SPEC, seen(main=1000, replicas=2), SHORT_ITEMS, 0.0)
    assert (decision.replicas, decision.rule) == (10, ScalingRule.MAX_REPLICAS)
    assert "maxReplicas is 10" in decision.reason


def test_min_limits_and_says_so() -> None:
    decision = decide(replace(SPEC, min_replicas=2), seen(), EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (2, ScalingRule.MIN_REPLICAS)


def test_with_a_min_idleness_never_goes_below_it() -> None:
    spec = replace(SPEC, min_replicas=1)
    decision = run(spec, seen(replicas=4), until=500.0)
    assert (decision.replicas, decision.rule) == (1, ScalingRule.MIN_REPLICAS)


def test_a_lowered_max_takes_workers_at_once_even_busy_ones() -> None:
    decision = decide(
        replace(SPEC, max_replicas=3), seen(main=100, busy=8, replicas=8, busy_workers=8), EMPTY, 0.0
    )
    assert (decision.replicas, decision.rule) == (3, ScalingRule.MAX_REPLICAS)


def test_an_idle_queue_keeps_one_worker_and_goes_to_zero_after_idle_after() -> None:
    waiting = run(SPEC, seen(replicas=4), until=59.0)
    assert (waiting.replicas, waiting.rule) == (1, ScalingRule.IDLE_WAIT)
    assert waiting.reason.endswith("scales to 0 in 1 s")
    gone = decide(SPEC, seen(replicas=1), waiting.state, 60.0)
    assert (gone.replicas, gone.rule) == (0, ScalingRule.IDLE)


def test_idle_after_beats_window_and_step_limit() -> None:
    spec = replace(SPEC, idle_after=5.0, scale_down=ScaleDownSpec(stabilization_window=300.0, max_step=1))
    assert run(spec, seen(replicas=4), until=4.0).replicas == 4
    assert run(spec, seen(replicas=4), until=5.0).replicas == 0


def test_a_claim_in_flight_keeps_its_worker_however_long() -> None:
    decision = run(SPEC, seen(busy=1, replicas=4, busy_workers=1), until=3600.0)
    assert decision.replicas == 1


def test_a_worker_with_a_claim_stays_while_its_items_are_not_counted() -> None:
    assert run(SPEC, seen(replicas=4, busy_workers=1), until=300.0).replicas == 1


def test_an_item_in_between_restarts_the_idle_time() -> None:
    idle = run(SPEC, seen(replicas=1), until=50.0)
    busy = decide(SPEC, seen(main=1, replicas=1), idle.state, 51.0)
    assert run(SPEC, seen(replicas=1), start=52.0, until=111.0, state=busy.state).replicas == 1
    assert run(SPEC, seen(replicas=1), start=52.0, until=112.0, state=busy.state).replicas == 0


def test_workers_are_taken_away_only_after_the_window() -> None:
    high = decide(SPEC, seen(main=60, replicas=6), EMPTY, 0.0)
    low = run(SPEC, seen(main=15, replicas=6), start=1.0, until=19.0, state=high.state)
    assert (low.replicas, low.rule) == (6, ScalingRule.STABILIZING)
    assert "6 workers were wanted within the last 20 s" in low.reason
    assert run(SPEC, seen(main=15, replicas=6), start=1.0, until=20.0, state=high.state).replicas == 3


def test_a_fresh_start_removes_no_worker_for_one_window() -> None:
    assert run(SPEC, seen(main=5, replicas=8), until=19.0).replicas == 8
    assert run(SPEC, seen(main=5, replicas=8), until=20.0).replicas == 1


def test_workers_that_hold_claims_are_never_taken() -> None:
    decision = run(SPEC, seen(main=1, busy=4, replicas=8, busy_workers=4), until=100.0)
    assert (decision.replicas, decision.rule) == (4, ScalingRule.BUSY_WORKERS)
    assert "4 workers hold claims" in decision.reason


def test_busy_workers_on_their_way_out_do_not_add_workers() -> None:
    assert run(SPEC, seen(main=1, busy=5, replicas=2, busy_workers=5), until=100.0).replicas == 2


def test_the_larger_of_the_two_wishes_wins() -> None:
    by_length = decide(SPEC, seen(main=41, replicas=4), SHORT_ITEMS, 0.0)
    assert (by_length.replicas, by_length.rule) == (5, ScalingRule.ITEMS_PER_REPLICA)
    spec = replace(SPEC, items_per_replica=100, max_replicas=100)
    by_target = decide(spec, seen(main=41, replicas=4, oldest_age=31.0), EMPTY, 0.0)
    assert by_target.replicas is not None
    assert by_target.replicas > 5
    assert by_target.rule is ScalingRule.TARGET_AGE


def test_one_old_item_does_not_hold_many_workers() -> None:
    spec = replace(SPEC, items_per_replica=None)
    assert run(spec, seen(main=1, replicas=10, oldest_age=5000.0), until=30.0).replicas == 1


def test_steps_up_are_limited_in_each_period() -> None:
    spec = replace(SPEC, scale_up=ScaleUpSpec(max_step=3, period=10.0))
    first = decide(spec, seen(main=100, replicas=1), SHORT_ITEMS, 0.0)
    assert (first.replicas, first.rule) == (4, ScalingRule.STEP_UP)
    assert decide(spec, seen(main=100, replicas=4), first.state, 9.0).replicas == 4
    assert decide(spec, seen(main=100, replicas=4), first.state, 10.0).replicas == 7


def test_min_is_reached_at_once_whatever_the_step() -> None:
    spec = replace(SPEC, min_replicas=5, scale_up=ScaleUpSpec(max_step=1))
    assert decide(spec, seen(), EMPTY, 0.0).replicas == 5


def test_steps_down_are_limited_in_each_period() -> None:
    spec = replace(SPEC, scale_down=ScaleDownSpec(stabilization_window=0.0, max_step=2, period=10.0))
    first = decide(spec, seen(main=1, replicas=9), ScalingState(seen_at=0.0), 1.0)
    assert (first.replicas, first.rule) == (7, ScalingRule.STEP_DOWN)
    assert decide(spec, seen(main=1, replicas=7), first.state, 10.0).replicas == 7
    assert decide(spec, seen(main=1, replicas=7), first.state, 11.0).replicas == 5


def test_a_step_limit_down_counts_from_what_another_client_raised() -> None:
    spec = replace(SPEC, scale_down=ScaleDownSpec(stabilization_window=0.0, max_step=2, period=10.0))
    first = decide(spec, seen(main=1, replicas=4), ScalingState(seen_at=0.0), 1.0)
    assert decide(spec, seen(main=1, replicas=9), first.state, 2.0).replicas == 7


def test_what_is_unknown_leaves_the_workers_alone() -> None:
    decision = decide(SPEC, None, EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (None, ScalingRule.UNKNOWN)


def test_after_an_outage_no_worker_goes_before_a_window_of_knowledge() -> None:
    idle = run(SPEC, seen(replicas=5), until=30.0, state=ScalingState(seen_at=0.0))
    outage = run(SPEC, None, start=31.0, until=900.0, state=idle.state)
    assert run(SPEC, seen(replicas=5), start=901.0, until=920.0, state=outage.state).replicas == 5
    assert run(SPEC, seen(replicas=5), start=901.0, until=921.0, state=outage.state).replicas == 1
    assert run(SPEC, seen(replicas=5), start=901.0, until=960.0, state=outage.state).replicas == 1
    assert run(SPEC, seen(replicas=5), start=901.0, until=961.0, state=outage.state).replicas == 0


def test_one_failed_observation_restarts_idle_time_and_window() -> None:
    idle = run(SPEC, seen(replicas=5), until=15.0)
    blind = decide(SPEC, None, idle.state, 16.0)
    assert run(SPEC, seen(replicas=5), start=17.0, until=36.0, state=blind.state).replicas == 5
    assert run(SPEC, seen(replicas=5), start=17.0, until=76.0, state=blind.state).replicas == 1
    assert run(SPEC, seen(replicas=5), start=17.0, until=77.0, state=blind.state).replicas == 0


def test_a_high_wish_is_remembered_under_many_lower_ones() -> None:
    down = ScaleDownSpec(stabilization_window=300.0)
    spec = replace(SPEC, items_per_replica=1, max_replicas=1000, scale_down=down)
    state = ScalingState(seen_at=0.0)
    for now in range(100):
        decision = decide(spec, seen(main=1000 - now, replicas=1000), state, float(now))
        state = decision.state
        assert decision.replicas == 1000
    assert len(state.wanted) <= MOST_WANTED


def test_a_step_limit_up_counts_from_what_another_client_lowered() -> None:
    spec = replace(SPEC, scale_up=ScaleUpSpec(max_step=2, period=10.0))
    first = decide(spec, seen(main=100, replicas=6), EMPTY, 0.0)
    assert decide(spec, seen(main=100, replicas=1), first.state, 1.0).replicas == 3


def test_a_step_up_in_between_gives_no_further_step_down() -> None:
    spec = replace(SPEC, scale_down=ScaleDownSpec(stabilization_window=0.0, max_step=2, period=10.0))
    lower = decide(spec, seen(main=1, replicas=9), ScalingState(seen_at=0.0), 1.0)
    higher = decide(spec, seen(main=75, replicas=7), lower.state, 2.0)
    assert (lower.replicas, higher.replicas) == (7, 10)
    assert decide(spec, seen(main=1, replicas=8), higher.state, 3.0).replicas == 7


def test_a_long_gap_between_decisions_counts_as_unknown() -> None:
    idle = run(SPEC, seen(replicas=1), until=59.0)
    assert decide(SPEC, seen(replicas=5), idle.state, 59.0 + 61.0).replicas == 5


def test_a_gap_of_a_minute_and_a_second_decision_at_the_same_time_count() -> None:
    idle = run(SPEC, seen(replicas=1), until=59.0)
    assert decide(SPEC, seen(replicas=5), idle.state, 59.0 + 60.0).replicas == 0
    again = decide(SPEC, seen(replicas=1), idle.state, 59.0)
    assert again.state.idle_since == 0.0


def test_a_clock_that_goes_back_is_a_fresh_start() -> None:
    state = run(SPEC, seen(main=5, replicas=8), start=1000.0, until=1050.0).state
    decision = decide(SPEC, seen(main=5, replicas=8), state, 10.0)
    assert decision.replicas == 8
    assert decision.state.wanted[0] == (10.0, 8)


def test_suspend_takes_all_workers_away_also_when_nothing_is_known() -> None:
    for what in (None, seen(main=9, busy=3, replicas=3, busy_workers=3)):
        decision = decide(replace(SPEC, suspended=True, min_replicas=2), what, EMPTY, 0.0)
        assert (decision.replicas, decision.rule) == (0, ScalingRule.SUSPENDED)


def test_manual_is_what_a_person_said_also_when_nothing_is_known() -> None:
    spec = replace(SPEC, mode=ScalingMode.MANUAL, replicas=17)
    for what in (None, seen(main=1, replicas=3)):
        decision = decide(spec, what, EMPTY, 0.0)
        assert (decision.replicas, decision.rule) == (17, ScalingRule.MANUAL)
    none = decide(replace(spec, replicas=0), None, EMPTY, 0.0)
    assert (none.replicas, none.reason) == (0, "mode is Manual: 0 workers, as replicas says")


def test_external_leaves_the_workers_alone_unless_the_scale_was_set() -> None:
    spec = replace(SPEC, mode=ScalingMode.EXTERNAL)
    decision = decide(spec, seen(main=1000, replicas=3), EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (None, ScalingRule.EXTERNAL)
    assert decide(replace(spec, replicas=4), seen(main=1, replicas=3), EMPTY, 0.0).replicas == 4


@pytest.mark.parametrize(("busy", "wanted"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_workers_that_hold_claims_stay_whatever_an_autoscaler_asks_for(busy: int, wanted: int) -> None:
    """An autoscaler sees the items that wait: KEDA asks for 0 while the last ones are in progress."""
    spec = replace(SPEC, mode=ScalingMode.EXTERNAL, replicas=1)
    decision = decide(spec, seen(busy=busy, busy_workers=busy, replicas=3), EMPTY, 0.0)
    assert (decision.replicas, decision.rule) == (wanted, ScalingRule.EXTERNAL)
    held = f"; {wanted} workers hold claims" if busy > 1 else ""
    assert decision.reason == f"mode is External: 1 worker, as the scale of this queue was set{held}"


def test_what_an_autoscaler_asks_for_waits_while_the_queue_is_unknown() -> None:
    spec = replace(SPEC, mode=ScalingMode.EXTERNAL, replicas=1)
    assert decide(spec, None, EMPTY, 0.0).replicas is None


@pytest.mark.parametrize("rule", list(ScalingRule))
def test_rules_are_camel_case_words(rule: ScalingRule) -> None:
    assert rule.value.isalpha()
    assert rule.value[0].isupper()
    assert rule.value == rule.name.title().replace("_", "")


def at_limit(*limits: Limit, startable: int = 0) -> LimitsNow:
    return LimitsNow(limits, startable, None)


@pytest.mark.parametrize(
    ("limits", "workers"),
    [
        (None, 100),
        (at_limit(Limit("api", rate="10/s")), 20),
        (at_limit(Limit("api", rate="10/s"), startable=1), 20),
        (at_limit(Limit("api", rate="10/s"), Limit("day", rate="60/m")), 2),
        (at_limit(Limit("licences", busy=7)), 7),
        (at_limit(Limit("api", rate="10/s", burst=31), startable=31), 50),
        (at_limit(Limit("api", rate="1/d")), 1),
    ],
)
@pytest.mark.parametrize("per_replica", [None, 10])
def test_what_a_limit_holds_back_is_not_scaled_for(
    limits: LimitsNow | None, workers: int, per_replica: int | None
) -> None:
    """Items take two seconds."""
    spec = ScalingSpec(max_replicas=100, items_per_replica=per_replica)
    known = ScalingState(estimates=Estimates.from_json({"busySeconds": 400.0, "ended": 200}))
    what = replace(seen(main=10_000, replicas=1, oldest_age=600.0), limits=limits)
    assert run(spec, what, 120.0, state=known).replicas == workers


def test_the_reason_names_the_limits() -> None:
    known = ScalingState(estimates=Estimates.from_json({"busySeconds": 400.0, "ended": 200}))
    what = replace(
        seen(main=10_000, replicas=1, oldest_age=600.0), limits=at_limit(Limit("licences", busy=7))
    )
    reason = decide(ScalingSpec(max_replicas=100), what, known, 0.0).reason
    assert reason.endswith("7 workers for the target of 30s, as many as the limits of the queue let work")
