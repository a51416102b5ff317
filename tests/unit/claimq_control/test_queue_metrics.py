"""QueueMetrics of queues: bounded, correct, and removed with their queue."""

import math
from dataclasses import replace

from claimq.limits import Neighbour
from claimq.model import COUNTERS, Snapshot, State
from claimq_control.manifest import ScalingSpec
from claimq_control.queue_metrics import QueueMetrics
from claimq_control.scaling import Decision, ScalingState, decide
from testkit.kubernetes.scaling_input import scaling_input

KEY = ("team", "thumbs")


def snapshot(**counters: int) -> Snapshot:
    lengths = dict.fromkeys(State, 0) | {State.MAIN: 7, State.BUSY: 2}
    ages: dict[State, float | None] = dict.fromkeys(State, None)
    return Snapshot(
        now=100.0,
        seq=1,
        lengths=lengths,
        ages={**ages, State.MAIN: 12.5},
        counters={**dict.fromkeys(COUNTERS, 0), **counters},
        next_due_in=None,
        paused=False,
    )


def decision(main: int) -> Decision:
    """The decision on a queue at 8 items per worker."""
    spec = ScalingSpec(max_replicas=2, items_per_replica=8)
    return decide(spec, scaling_input(main=main, busy=0, replicas=0, ready=0), ScalingState(), 0.0)


def series(metrics: QueueMetrics, start: str) -> dict[str, float]:
    """Labels (and name) to value."""
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith(start)]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def seen(**counters: int) -> QueueMetrics:
    metrics = QueueMetrics()
    metrics.set_queue(KEY, snapshot(**counters), {"desired": 3, "ready": 2, "busy": 1})
    return metrics


def test_failed_attempts_are_exported_by_reason() -> None:
    metrics = seen(enqueued=10, done=4, fails=3, crashes=5, expired=2, failed=1)
    start = 'claimq_queue_transitions_total{kind="attempt_failed",name="thumbs",namespace="team",reason='
    assert series(metrics, start) == {start + '"fail"}': 3, start + '"crash"}': 3, start + '"expired"}': 2}
    whole = 'claimq_queue_transitions_total{kind="enqueued",name="thumbs",namespace="team",reason=""}'
    assert series(metrics, whole) == {whole: 10}


def test_every_counter_is_exported_even_at_zero() -> None:
    exported = series(seen(), "claimq_queue_transitions_total{")
    assert set(exported.values()) == {0}
    assert len(exported) == len(COUNTERS), "fails, crashes and expired are three reasons of one kind"


def test_items_ages_and_workers_are_exported_by_state_and_kind() -> None:
    metrics = seen()
    assert (
        series(metrics, 'claimq_queue_items{name="thumbs",namespace="team",state="main"}').popitem()[1] == 7
    )
    ready = 'claimq_queue_waiting_items{name="thumbs",namespace="team",reason="ready"}'
    assert series(metrics, ready).popitem()[1] == 7
    age = 'claimq_queue_oldest_age_seconds{name="thumbs",namespace="team",state="main"}'
    assert series(metrics, age).popitem()[1] == 12.5
    assert set(series(metrics, "claimq_queue_workers").values()) == {3, 2, 1}


def test_items_that_are_missing_are_exported_while_the_queue_is_known() -> None:
    name = "claimq_queue_items_unaccounted"
    metrics = seen(enqueued=20, done=4)
    held = sum(snapshot().lengths.values())
    assert series(metrics, name).popitem()[1] == 16 - held
    metrics.set_queue(KEY, None, {})
    assert math.isnan(series(metrics, name).popitem()[1])


def test_an_unknown_queue_exports_no_stale_numbers() -> None:
    metrics = seen(done=4)
    metrics.set_queue(KEY, None, {"desired": 3, "ready": 2, "busy": 0})
    items = series(metrics, "claimq_queue_items{")
    assert len(items) == len(State)
    assert all(map(math.isnan, items.values()))
    assert all(map(math.isnan, series(metrics, "claimq_queue_waiting_items{").values()))
    assert series(metrics, "claimq_queue_redis_reachable").popitem()[1] == 0


def test_conditions_are_one_zero_or_unknown() -> None:
    metrics = seen()
    conditions = [
        {"type": "Stalled", "status": "True"},
        {"type": "Suspended", "status": "False"},
        {"type": "RedisReachable", "status": "Unknown"},
    ]
    warnings = [
        "NoAppendOnly: x",
        "EvictionPolicy: y",
        "AsynchronousReplication: has replicas, which is no fault",
    ]
    metrics.set_status(KEY, {"conditions": conditions, "redis": {"warnings": warnings}}, 30.0)
    start = "claimq_queue_condition{condition="
    values = {label.split('"')[1]: value for label, value in series(metrics, start).items()}
    assert math.isnan(values.pop("RedisReachable"))
    assert values == {"Stalled": 1, "Suspended": 0}
    assert series(metrics, "claimq_queue_redis_warnings").popitem()[1] == 2
    assert series(metrics, "claimq_queue_target_age_seconds").popitem()[1] == 30


def test_a_condition_that_the_status_has_no_more_is_zero() -> None:
    metrics = seen()
    for conditions in ([{"type": "Full", "status": "True"}, {"type": "Stalled", "status": "True"}], []):
        metrics.set_status(KEY, {"conditions": conditions}, 30.0)
        assert set(series(metrics, "claimq_queue_condition").values()) == {float(bool(conditions))}


def test_an_invalid_spec_keeps_the_last_target() -> None:
    metrics = seen()
    metrics.set_status(KEY, {"conditions": []}, 30.0)
    metrics.set_status(KEY, {"conditions": []}, None)
    assert series(metrics, "claimq_queue_target_age_seconds").popitem()[1] == 30


def test_all_series_of_a_queue_are_removed_with_it() -> None:
    metrics = seen(done=4)
    other = ("team", "videos")
    for key in (KEY, other):
        metrics.set_queue(key, snapshot(), {"desired": 1, "ready": 1, "busy": 0})
        metrics.set_status(key, {"conditions": [{"type": "Stalled", "status": "False"}]}, 30.0)
        metrics.decisions.labels(*key, "Hold").inc()
        metrics.set_scaling(key, decision(main=40))
        metrics.released.labels(*key, "crashed").inc()
    assert b'name="thumbs"' in metrics.render()
    metrics.forget_queue(KEY)
    assert b'name="thumbs"' not in metrics.render()
    assert b'name="videos"' in metrics.render()


def test_the_inputs_of_a_decision_are_exported_by_rule() -> None:
    metrics = QueueMetrics()
    metrics.set_scaling(KEY, decision(main=40))
    wanted = series(metrics, "claimq_scaling_wanted_workers{")
    labels = 'claimq_scaling_wanted_workers{name="thumbs",namespace="team",rule='
    assert set(wanted) == {labels + '"deadlines"}', labels + '"arrivals"}', labels + '"items_per_replica"}'}
    assert wanted[labels + '"items_per_replica"}'] == 5
    assert series(metrics, "claimq_scaling_service_seconds{").popitem()[1] > 0


def test_a_decision_without_arithmetic_exports_no_stale_inputs() -> None:
    metrics = QueueMetrics()
    metrics.set_scaling(KEY, decision(main=40))
    metrics.set_scaling(KEY, decide(ScalingSpec(), None, ScalingState(), 0.0))
    for name in ("wanted_workers{", "arrivals_per_second{", "service_seconds{", "start_seconds{"):
        found = series(metrics, f"claimq_scaling_{name}")
        assert found
        assert all(map(math.isnan, found.values())), name


def shares(metrics: QueueMetrics) -> dict[tuple[str, str], float]:
    """The series of clients by name and kind."""
    found = series(metrics, "claimq_queue_neighbour_share{")
    return {(text.split('"')[1], text.split('"')[3]): number for text, number in found.items()}


def test_clients_that_delay_others_have_series_and_all_others_share_one() -> None:
    metrics = seen()
    assert shares(metrics) == {}
    heavy = (Neighbour("acme", 0.5, 0.75, 3, 42.0), Neighbour(None, 0.25, 0.125, 2, 42.0))
    metrics.set_queue(KEY, replace(snapshot(), neighbours=heavy), {})
    assert shares(metrics) == {
        ("acme", "slots"): 0.5,
        ("acme", "time"): 0.75,
        ("no client", "slots"): 0.25,
        ("no client", "time"): 0.125,
        ("other clients", "slots"): 0.25,
        ("other clients", "time"): 0.125,
    }
    assert [*series(metrics, "claimq_queue_neighbour_delayed_clients").values()] == [3, 2]
    assert [*series(metrics, "claimq_queue_neighbour_delay_seconds").values()] == [42, 42]
    metrics.set_queue(KEY, snapshot(), {})
    assert series(metrics, "claimq_queue_neighbour") == {}


def test_clients_with_new_names_have_at_most_20_series_in_an_hour() -> None:
    metrics, exported = seen(), set[str]()
    for number in range(100):
        named = (Neighbour(f'c"{number}', 0.75, 0.75, 1, 9.0),)
        metrics.set_queue(KEY, replace(snapshot(), now=100.0 + number, neighbours=named), {})
        exported |= set(series(metrics, "claimq_queue_neighbour_delay_seconds"))
        assert sum(series(metrics, "claimq_queue_neighbour_share{").values()) == 2
    assert len(exported) == 20
    named = (Neighbour("later", 0.75, 0.75, 1, 9.0),)
    metrics.set_queue(KEY, replace(snapshot(), now=3800.0, neighbours=named), {})
    assert ("later", "slots") in shares(metrics)
