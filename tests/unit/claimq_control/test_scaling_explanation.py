"""The arithmetic of a decision: estimates with their errors, workers by rule, and the document that shows them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from claimq_control.manifest import ScalingMode, ScalingSpec
from claimq_control.scaling import (
    Decision,
    Estimates,
    Explanation,
    Limit,
    Observation,
    ScalingState,
    decide,
    document,
)
from testkit.kubernetes.scaling_input import scaling_input

SPEC = ScalingSpec(max_replicas=100, target_age=30.0, items_per_replica=8)
BURST = scaling_input(main=600, busy=0, replicas=0, ready=0, oldest_age=0.0)


def decided(what: Observation | None, spec: ScalingSpec = SPEC, **learned: float) -> Decision:
    stored = {"arrivalRate": 2.0, "busySeconds": 400.0, "ended": 100.0, "starts": 9.0, **learned}
    stored = {"startSeconds": 8.0, "startDeviation": 1.5, **stored}
    return decide(spec, what, ScalingState(estimates=Estimates.from_json(stored)), 0.0)


def explanation(what: Observation, spec: ScalingSpec = SPEC, **learned: float) -> Explanation:
    found = decided(what, spec, **learned).explanation
    assert found is not None
    return found


def test_each_rule_shows_how_many_workers_it_asks_for() -> None:
    found = explanation(BURST)
    assert found.items_per_replica == 75, "600 items at 8 per worker"
    assert found.wanted == max(min(found.useful, max(found.deadlines, found.balance)), 75)
    assert found.deadlines > 75, "600 items of 4 s within 24 s, and none for the first 8 s"
    assert (found.min_replicas, found.max_replicas) == (0, 100)


def test_a_rule_that_is_not_set_asks_for_nothing() -> None:
    spec = ScalingSpec(max_replicas=100, target_age=30.0)
    assert explanation(BURST, spec).items_per_replica is None
    assert "forItemsPerReplica" not in document(decided(BURST, spec), BURST)["demand"]


def test_estimates_have_errors_that_shrink_with_what_was_seen() -> None:
    found = explanation(BURST)
    assert (found.service.value, found.service.error) == (4.0, 0.4), "100 items"
    assert (found.start.value, found.start.error) == (8.0, 1.5)
    assert found.arrivals.value == 2.0
    assert 0 < found.arrivals.error < 0.2
    assert explanation(BURST, ended=1.0, busySeconds=4.0).service.error > found.service.error


def test_the_error_of_a_rate_is_that_of_the_span_it_averages_over() -> None:
    # With a target of 30 s the slow rate averages over 60 s, the fast one over 15 s.
    assert explanation(BURST).arrivals.error == pytest.approx(math.sqrt(2.0 / 120))
    state = ScalingState(estimates=replace(Estimates(), slow=1.0, fast=3.0))
    found = decide(SPEC, BURST, state, 0.0).explanation
    assert found is not None
    assert found.arrivals.value == 3.0
    assert found.arrivals.error == pytest.approx(math.sqrt(3.0 / 30))


def test_before_two_items_have_ended_the_error_of_the_service_time_is_all_of_it() -> None:
    for ended in (0.0, 1.0):
        service = explanation(BURST, ended=ended, busySeconds=4.0 * ended).service
        assert service.error == service.value


def test_what_is_unknown_or_fixed_by_the_manifest_has_no_arithmetic() -> None:
    fixed = ScalingSpec(mode=ScalingMode.MANUAL, replicas=2)
    for one in (decided(None), decided(BURST, fixed)):
        assert one.explanation is None
        assert "demand" not in document(one, None)


def test_an_idle_queue_shows_its_estimates_too() -> None:
    found = explanation(scaling_input(main=0, busy=0, replicas=0, ready=0))
    assert (found.wanted, found.service.value) == (0, 4.0)


def test_the_document_has_the_numbers_in_three_digits() -> None:
    shown = document(decided(BURST, arrivalRate=2.34567), BURST)
    assert shown["demand"]["arrivalsPerSecond"] == 2.35
    assert (shown["demand"]["secondsPerItem"], shown["demand"]["secondsPerItemError"]) == (4.0, 0.4)
    assert shown["inputs"]["main"] == 600
    assert shown["inputs"]["starting"] == 0
    assert shown["estimates"]["arrivalRate"] == 2.3457, "the next operator continues from exact ones"


def test_the_document_has_ages_in_tenths_of_seconds_and_delayed_items_if_any() -> None:
    look = replace(BURST, oldest_age=2.34, delayed_soon=1)
    inputs = document(decided(look), look)["inputs"]
    assert (inputs["oldestAge"], inputs["delayedSoon"]) == (2.3, 1)
    assert "delayedSoon" not in document(decided(BURST), BURST)["inputs"]


def test_a_limit_is_in_the_document_with_the_workers_it_would_take() -> None:
    spec = ScalingSpec(max_replicas=10, target_age=30.0)
    shown = document(decided(BURST, spec), BURST)
    assert (shown["limit"], shown["replicas"]) == ("MaxReplicas", 10)
    assert shown["needed"] == shown["demand"]["wanted"] > 10
    assert "limit" not in document(decided(BURST, ScalingSpec(max_replicas=1000, target_age=30.0)), BURST)


def test_items_longer_than_the_target_are_named_as_the_limit() -> None:
    spec = ScalingSpec(max_replicas=10, target_age=30.0)
    found = decided(BURST, spec, busySeconds=6000.0, arrivalRate=0.0)
    assert (found.limit, found.replicas) == (Limit.LONG_ITEMS, 10)
    assert found.needed == 600, "each waiting item needs a worker of its own"


def test_a_limit_of_the_target_is_found_also_when_items_per_replica_asks_for_more() -> None:
    spec = ScalingSpec(max_replicas=10, target_age=30.0, items_per_replica=1)
    found = decided(BURST, spec)
    assert (found.limit, found.replicas) == (Limit.MAX_REPLICAS, 10)
    assert 10 < found.needed < 600, "what the target needs, not one worker for each item"
