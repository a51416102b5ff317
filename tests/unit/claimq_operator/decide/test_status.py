"""The status: its shape as the CRD declares it, and when it is written."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
import yaml

from claimq.model import ServerReport, ServerWarning, WorkerInfo
from claimq_control.decide.conditions import View
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import seen_for_scaling
from claimq_control.decide.status import age_text, build
from claimq_control.scaling import Decision, ScalingRule, ScalingState
from claimq_kubernetes.port import Json
from claimq_operator.decide.status_writes import has_changed, is_urgent
from testkit.kubernetes.kubernetes_objects import pod_body, snapshot, worker_name
from testkit.repository.tree import ROOT

Look = Callable[..., Observed]


def status_of(look: Observed, wanted: int = 1, now: float = 1_767_225_600.0) -> Json:
    decision = Decision(wanted, ScalingRule.FROM_ZERO, "why", ScalingState())
    return build(View(look, decision, wanted), seen_for_scaling(look, 1, now), now=now)


def test_every_field_is_one_of_the_crds(observed: Look) -> None:
    crd = yaml.safe_load((ROOT / "crds" / "reliablequeues.claimq.dev.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert _unknown(status_of(observed(main=2, busy=1, age=3.0)), schema, "status") == []


def _unknown(value: object, schema: Json, path: str) -> list[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return []
    found: list[str] = []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key, inner in cast("Json", value).items():
            here = f"{path}.{key}"
            found += _unknown(inner, known[key], here) if key in known else [here]
    elif isinstance(value, list):
        for one in cast("list[object]", value):
            found += _unknown(one, schema["items"], f"{path}[]")
    return found


def test_an_unknown_queue_keeps_its_last_numbers(observed: Look) -> None:
    look = observed(unknown=True)
    before = {"items": {"main": 7}, "waiting": {"ready": 7}, "ages": {"main": 3.0}, "oldest": "3s"}
    status = build(
        View(replace(look, resource=replace(look.resource, status=before)), None, 0), None, now=0.0
    )
    assert {key: status[key] for key in before} == before


def test_an_unknown_queue_keeps_its_number_of_busy_workers(observed: Look) -> None:
    look = observed(unknown=True)
    before = {"workers": {"desired": 2, "ready": 2, "busy": 2}}
    view = View(replace(look, resource=replace(look.resource, status=before)), None, 2)
    assert build(view, None, now=0.0)["workers"]["busy"] == 2


def test_the_status_has_no_empty_objects_which_the_api_server_rejects(observed: Look) -> None:
    report = ServerReport("valkey", "9.1", "standalone", ())
    status = status_of(replace(observed(), report=report))
    inner = [
        value for one in status.values() if isinstance(one, dict) for value in cast("Json", one).values()
    ]
    assert [one for one in [*status.values(), *inner] if one in ({}, [])] == []


def test_an_empty_state_has_no_age(observed: Look) -> None:
    assert status_of(observed()).keys().isdisjoint({"ages", "oldest"})


def test_a_decision_keeps_its_time_while_it_stays_the_same(observed: Look) -> None:
    look = observed(main=1)
    first = status_of(look, now=0.0)
    again = replace(look, resource=replace(look.resource, status=first))
    assert status_of(again, now=100.0)["scaling"]["at"] == "1970-01-01T00:00:00Z"
    assert status_of(again, wanted=2, now=100.0)["scaling"]["at"] == "1970-01-01T00:01:40Z"


def test_an_unchanged_status_is_not_written(observed: Look) -> None:
    status = status_of(observed(main=1, age=100.0))
    later = status_of(observed(main=1, age=104.0), now=1_767_225_604.0)
    assert not has_changed(later, status)


def test_numbers_wait_for_their_time(observed: Look) -> None:
    status, later = status_of(observed(main=1)), status_of(observed(main=2))
    assert has_changed(later, status)
    assert not is_urgent(later, status)


def test_an_age_that_grew_by_a_fifth_is_written(observed: Look) -> None:
    status = status_of(observed(main=1, age=100.0))
    assert has_changed(status_of(observed(main=1, age=130.0)), status)


@pytest.mark.parametrize("change", [{"wanted": 2}, {"wanted": 0}])
def test_another_number_of_workers_is_written_at_once(observed: Look, change: dict[str, int]) -> None:
    assert is_urgent(status_of(observed(main=1), **change), status_of(observed(main=1)))


def test_the_number_of_busy_workers_waits_for_its_time(observed: Look) -> None:
    """It changes with each item: otherwise a busy queue costs a write each second."""

    def with_busy(count: int) -> Json:
        pods = [pod_body(name) for name in "ab"]
        workers = [WorkerInfo(worker_name(name), 1, 0.0) for name in "ab"[:count]]
        return status_of(observed(main=3, replicas=2, pods=pods, workers=workers), wanted=2)

    one, two = with_busy(1), with_busy(2)
    assert (one["workers"]["busy"], two["workers"]["busy"]) == (1, 2)
    assert has_changed(two, one)
    assert not is_urgent(two, one)


def test_a_changed_condition_is_written_at_once(observed: Look) -> None:
    paused = status_of(observed(seen=snapshot(paused=True)))
    assert is_urgent(paused, status_of(observed()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("observedGeneration", 4),
        ("selector", "other"),
        ("queueName", "other"),
        ("workers", {"desired": 9}),
        ("conditions", []),
    ],
)
def test_each_difference_that_users_wait_for_is_urgent_by_itself(
    observed: Look, key: str, value: object
) -> None:
    status = status_of(observed(main=1, age=3.0))
    changed = {**status, key: value}
    assert is_urgent(changed, status)
    assert has_changed(changed, status)
    assert not is_urgent(status, dict(status))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("items", {"main": 9}),
        ("redis", {"version": "valkey 9.2"}),
        ("scaling", {"rule": "Idle", "replicas": 1}),
        ("scaling", {"rule": "FromZero", "replicas": 2}),
        ("ages", {"main": 3.0, "busy": 1.0}),
        ("ages", {}),
    ],
)
def test_each_difference_of_numbers_is_written_by_itself_though_not_at_once(
    observed: Look, key: str, value: object
) -> None:
    status = status_of(observed(main=1, age=3.0))
    changed = {**status, key: value}
    assert has_changed(changed, status)
    assert not is_urgent(changed, status)


def test_another_message_of_a_condition_is_written_though_not_at_once(observed: Look) -> None:
    status = status_of(observed(main=1))
    conditions = [{**one, "message": "other"} for one in status["conditions"]]
    changed = {**status, "conditions": conditions}
    assert has_changed(changed, status)
    assert not is_urgent(changed, status)


@pytest.mark.parametrize(
    ("before", "after", "is_written"),
    [
        (100.0, 125.0, False),
        (100.0, 125.1, True),
        (125.0, 100.0, False),
        (125.1, 100.0, True),
        (0.5, 1.5, False),
        (0.5, 1.6, True),
    ],
)
def test_ages_count_as_equal_up_to_a_fifth_or_a_second(before: float, after: float, is_written: bool) -> None:
    assert has_changed({"ages": {"main": after}}, {"ages": {"main": before}}) is is_written


def test_the_inputs_of_a_decision_are_in_the_status(observed: Look) -> None:
    seen = snapshot(main=3, busy=1, age=2.34, due_soon=5)
    status = status_of(observed(seen=seen, replicas=2, pods=[pod_body("a"), pod_body("b", ready=False)]))
    assert status["scaling"]["inputs"] == {
        "main": 3,
        "busy": 1,
        "delayedDue": 0,
        "replicas": 2,
        "ready": 1,
        "starting": 1,
        "busyWorkers": 0,
        "delayedSoon": 5,
        "oldestAge": 2.3,
    }
    assert (status["scaling"]["rule"], status["scaling"]["replicas"]) == ("FromZero", 1)
    assert status["ages"] == {"main": 2.3}
    assert status["waiting"] == {"notDue": 0, "paused": 0, "keyBusy": 0, "limit": 0, "ready": 3}
    assert status["workers"] == {"desired": 1, "ready": 1, "busy": 0, "summary": "1/1"}


def test_inputs_without_delayed_items_and_ages_leave_them_out(observed: Look) -> None:
    inputs = status_of(observed())["scaling"]["inputs"]
    assert inputs.keys().isdisjoint({"delayedSoon", "oldestAge"})


def test_a_decision_that_leaves_the_number_alone_has_none(observed: Look) -> None:
    decision = Decision(None, ScalingRule.EXTERNAL, "why", ScalingState())
    look = observed(main=1)
    status = build(View(look, decision, 1), seen_for_scaling(look, 1, 0.0), now=0.0)
    assert "replicas" not in status["scaling"]


def test_an_unknown_queue_keeps_its_estimates_and_the_report_of_its_server(observed: Look) -> None:
    look = observed(unknown=True)
    before = {"scaling": {"estimates": {"ended": 5}}, "redis": {"version": "valkey 9.1"}}
    decision = Decision(None, ScalingRule.UNKNOWN, "why", ScalingState())
    view = View(replace(look, resource=replace(look.resource, status=before)), decision, 0)
    status = build(view, None, now=0.0)
    assert status["scaling"]["estimates"] == {"ended": 5}
    assert status["redis"] == {"version": "valkey 9.1"}
    assert status["workers"]["busy"] == 0


def test_the_report_of_the_server_is_shown_with_its_warnings(observed: Look) -> None:
    report = ServerReport("valkey", "9.1", "standalone", (ServerWarning("NoAppendOnly", "set it"),))
    assert status_of(replace(observed(), report=report))["redis"] == {
        "version": "valkey 9.1",
        "mode": "standalone",
        "warnings": ["NoAppendOnly: set it"],
    }
    assert status_of(observed())["queueName"] == "media.thumbs"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (200, "3m20s"),
        (3600, "1h"),
        (18_600, "5h10m"),
        (187_200, "2d4h"),
        (61, "1m1s"),
        (3599, "59m59s"),
        (86_399, "23h59m"),
        (93_599, "1d1h"),
        (86_400, "1d"),
    ],
)
def test_ages_are_shown_in_two_units(seconds: float, text: str) -> None:
    assert age_text(seconds) == text
