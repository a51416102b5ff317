"""Plans: from one observation to children, deletion costs, workers and status."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from claimq.model import WorkerInfo
from claimq_control.decide.conditions import View
from claimq_control.decide.conditions.scaling_active import scaling_active
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, Plan, plan, seen_for_scaling
from claimq_control.fault import OWNED_BY_ANOTHER, Fault
from claimq_control.scale_down import SETTLE_SECONDS, VICTIM_COST, Marks
from claimq_control.scaling import Decision, ScalingRule, ScalingState
from claimq_control.workers import WorkerState
from claimq_kubernetes.queue_resource import read_queue
from claimq_operator.decide.workers_state import replicas_to_hold
from claimq_operator.settings import OperatorSettings
from claimq_operator.watch.cache import trim_deployment
from claimq_process.timestamps import parse_time
from testkit.kubernetes.kubernetes_objects import Body, deployment_body, pod_body, snapshot, worker_name
from testkit.kubernetes.observations import children_of, deployed, with_workers

Look = Callable[..., Observed]
Applied = Callable[..., tuple[tuple[Body, ...], Plan]]


@pytest.fixture
def planned(observed: Look) -> Callable[..., Plan]:
    """planned(main=3, ...) -> the plan of a pass at clock 100 s."""

    def make(memory: Memory | None = None, clock: float = 100.0, **look: object) -> Plan:
        return plan(observed(**look), memory or Memory(), now=1_767_225_600.0, clock=clock)

    return make


@pytest.fixture
def applied(observed: Look, settings: OperatorSettings) -> Applied:
    """applied(main=3, ...) -> the children that a pass applies, and its plan."""

    def make(**look: object) -> tuple[tuple[Body, ...], Plan]:
        seen = observed(**look)
        decided = plan(seen, Memory(), now=0.0, clock=0.0)
        return children_of(seen, decided, settings), decided

    return make


def test_the_first_item_starts_a_worker(planned: Callable[..., Plan]) -> None:
    decided = planned(main=1)
    assert (decided.replicas, decided.status["scaling"]["rule"]) == (1, "FromZero")


def test_an_unknown_queue_keeps_its_workers(planned: Callable[..., Plan]) -> None:
    decided = planned(unknown=True, replicas=4)
    assert decided.replicas is None
    assert decided.status["workers"]["desired"] == 4
    assert decided.decision is not None
    assert decided.decision.rule is ScalingRule.UNKNOWN


def test_an_unknown_queue_without_a_deployment_begins_with_min_replicas(applied: Applied) -> None:
    children, _ = applied(unknown=True, replicas=None, scaling={"minReplicas": 2})
    assert children[0]["spec"]["replicas"] == 2


def test_a_new_deployment_gets_the_decided_number_of_workers(applied: Applied) -> None:
    children, decided = applied(replicas=None, main=10, scaling={"itemsPerReplica": 2})
    assert (children[0]["spec"]["replicas"], decided.replicas) == (5, None)


def test_an_existing_deployment_is_applied_without_replicas(applied: Applied) -> None:
    children, _ = applied(main=10)
    assert "replicas" not in children[0]["spec"]


def test_suspend_takes_all_workers_though_they_are_busy(planned: Callable[..., Plan]) -> None:
    workers = [WorkerInfo(worker_name("a"), 1, 0.0)]
    decided = planned(suspend=True, replicas=1, pods=[pod_body("a")], workers=workers, busy=1)
    assert decided.replicas == 0


def test_external_leaves_the_number_alone(planned: Callable[..., Plan]) -> None:
    decided = planned(replicas=7, main=100, scaling={"mode": "External"})
    assert (decided.replicas, decided.status["workers"]["desired"]) == (None, 7)


def test_mode_manual_sets_the_given_number(planned: Callable[..., Plan]) -> None:
    assert planned(replicas=1, scaling={"mode": "Manual", "replicas": 3}).replicas == 3


@pytest.mark.parametrize(
    ("reason", "main", "replicas"),
    [
        (OWNED_BY_ANOTHER, 10, 0),  # they would process the other object's items
        ("PasswordHost", 1000, None),
        ("PasswordHost", 0, None),  # not idle for long enough yet
    ],
)
def test_a_queue_that_may_not_be_used_gets_no_more_workers(
    observed: Look, reason: str, main: int, replicas: int | None
) -> None:
    fault = Fault(reason, "why", needs_action=True, denied=True)
    look = replace(observed(replicas=3, main=main), redis_fault=fault)
    decided = plan(look, Memory(), now=0.0, clock=0.0)
    assert (decided.applies, decided.replicas) == (False, replicas)
    assert decided.status["workers"]["desired"] == (3 if replicas is None else replicas)


def test_a_queue_that_may_not_be_used_may_lose_workers(observed: Look) -> None:
    fault = Fault("PasswordHost", "why", needs_action=True, denied=True)
    look = replace(observed(replicas=3, scaling={"mode": "Manual", "replicas": 2}), redis_fault=fault)
    decided = plan(look, Memory(), now=0.0, clock=0.0)
    assert (decided.replicas, decided.status["workers"]["desired"]) == (2, 2)


def test_of_a_queue_that_may_not_be_used_idle_workers_go_first(observed: Look) -> None:
    pods = tuple(WorkerState(name, is_ready=True, busy=busy) for name, busy in (("a", 0), ("b", 1)))
    fault = Fault("PasswordHost", "why", needs_action=True, denied=True)
    look = replace(observed(replicas=2, scaling={"mode": "Manual", "replicas": 1}), redis_fault=fault)
    look = with_workers(look, workers=pods)
    marked = plan(look, Memory(), now=0.0, clock=0.0)
    assert (marked.costs, marked.replicas, marked.applies) == ({"a": VICTIM_COST}, None, False)
    settled = with_workers(look, workers=(replace(pods[0], deletion_cost=VICTIM_COST), pods[1]))
    lowered = plan(settled, marked.memory, now=0.0, clock=SETTLE_SECONDS)
    assert (lowered.costs, lowered.replicas) == ({}, 1)


def test_a_queue_that_may_not_be_used_and_has_its_workers_is_not_scaled(observed: Look) -> None:
    fault = Fault("PasswordHost", "why", needs_action=True, denied=True)
    look = replace(observed(replicas=2, scaling={"mode": "Manual", "replicas": 2}), redis_fault=fault)
    assert plan(look, Memory(), now=0.0, clock=0.0).replicas is None


def test_a_paused_queue_gets_only_a_status(observed: Look, queue_body: Callable[..., Body]) -> None:
    body = queue_body()
    body["metadata"] |= {"annotations": {"claimq.dev/pause-reconcile": "true"}}
    decided = plan(replace(observed(main=5), resource=read_queue(body)), Memory(), now=0.0, clock=0.0)
    assert (decided.applies, decided.replicas, decided.costs) == (False, None, {})
    reasons = {one["type"]: one["reason"] for one in decided.status["conditions"]}
    assert reasons["ScalingActive"] == "Paused"


def test_an_invalid_spec_is_reported_with_all_problems_and_changes_nothing(
    planned: Callable[..., Plan],
) -> None:
    decided = planned(replicas=2, requeueLimit=-1, scaling={"minReplicas": 9, "maxReplicas": 2})
    assert (decided.applies, decided.replicas) == (False, None)
    stalled = next(one for one in decided.status["conditions"] if one["type"] == "Stalled")
    assert stalled["reason"] == "SpecInvalid"
    assert "spec.requeueLimit" in stalled["message"]
    assert "spec.scaling.minReplicas" in stalled["message"]
    assert decided.status["workers"]["desired"] == 2


def test_fields_of_a_later_crd_do_not_stop_reconciliation(planned: Callable[..., Plan]) -> None:
    # In an upgrade the CRD comes first, and adds its defaults to queues that the old operator still reconciles.
    decided = planned(main=1, worker={"later": {"path": "/"}}, later=3)
    stalled = next(one for one in decided.status["conditions"] if one["type"] == "Stalled")
    assert (decided.replicas, stalled["status"]) == (1, "False")


def test_a_scale_down_marks_idle_pods_and_remembers_them(planned: Callable[..., Plan]) -> None:
    workers = [WorkerInfo(worker_name("a"), 1, 0.0)]
    look = {
        "replicas": 2,
        "pods": [pod_body("a"), pod_body("b")],
        "workers": workers,
        "busy": 1,
        "scaling": {"scaleDown": {"stabilizationWindow": "0s"}},
    }
    first = planned(**look)
    assert (first.costs, first.replicas) == ({"b": -1000}, None)
    look["pods"] = [pod_body("a"), pod_body("b", cost=-1000)]
    second = planned(first.memory, 101.5, **look)
    assert (second.costs, second.replicas) == ({}, 1)


def test_no_worker_is_taken_away_during_a_rollout(observed: Look) -> None:
    look = observed(
        replicas=2, pods=[pod_body("a"), pod_body("b")], main=0, busy=1, scaling={"maxReplicas": 1}
    )
    status = {**deployment_body(2)["status"], "updatedReplicas": 1}
    decided = plan(deployed(look, status=status), Memory(), now=0.0, clock=0.0)
    assert (decided.costs, decided.replicas) == ({}, None)


def test_suspend_takes_all_workers_also_during_a_rollout(observed: Look) -> None:
    look = observed(replicas=2, suspend=True)
    status = {**deployment_body(2)["status"], "updatedReplicas": 1}
    assert plan(deployed(look, status=status), Memory(), now=0.0, clock=0.0).replicas == 0


def test_a_rollout_past_its_deadline_does_not_block_scaling(observed: Look) -> None:
    look = observed(replicas=2)
    status = {
        "observedGeneration": 2,
        "replicas": 2,
        "updatedReplicas": 1,
        "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
    }
    assert not deployed(look, status=status).workers.is_rolling_out


@pytest.mark.parametrize(("spec", "longest"), [({}, 3600.0), ({"processingTimeout": "10m"}, 600.0)])
def test_a_scale_down_that_waits_for_a_busy_worker_names_it(
    planned: Callable[..., Plan], spec: dict[str, str], longest: float
) -> None:
    """An app that computes may not answer its probe; a ReplicaSet takes such a pod first, whatever it costs."""
    there = [pod_body("a", cost=VICTIM_COST), pod_body("b", ready=False)]
    memory = Memory(marks=Marks(frozenset("a"), 50.0, 50.0))
    look: dict[str, Any] = {
        "pods": there,
        "workers": [WorkerInfo(worker_name("b"), 1, 0.0)],
        "busy": 1,
        "replicas": 2,
        "scaling": {"mode": "Manual", "replicas": 1},
        **spec,
    }
    held = planned(memory, 50.0 + longest - 0.1, **look)
    text = "no worker is removed until the items of b end: busy workers that are not ready would go first"
    assert held.replicas is None
    assert text in held.status["scaling"]["reason"]
    assert planned(memory, 50.0 + longest, **look).replicas == 1


def test_the_condition_names_the_worker_that_a_scale_down_waits_for(observed: Look) -> None:
    decision = Decision(1, ScalingRule.MIN_REPLICAS, "why", ScalingState())
    view = View(observed(), decision, 1, wait="; no worker is removed until the items of b end")
    assert scaling_active(view).message.endswith("; no worker is removed until the items of b end")


def test_the_number_is_taken_over_when_only_the_operator_owns_it() -> None:
    assert replicas_to_hold(deployment_body(3)) is None
    assert replicas_to_hold(None) is None
    just_made = deployment_body(3, owner="claimq-operator")
    just_made["metadata"]["managedFields"] = just_made["metadata"]["managedFields"][1:]
    assert replicas_to_hold(just_made) == 3
    # The trimmed Deployment in the cache gives the same result.
    assert replicas_to_hold(trim_deployment(just_made)) == 3
    assert replicas_to_hold(trim_deployment(deployment_body(3))) is None


def test_due_items_that_are_not_yet_in_main_are_counted(observed: Look) -> None:
    seen = seen_for_scaling(observed(seen=snapshot(next_due_in=0.0)), 1, 1_700_000_000.0)
    assert seen is not None
    assert seen.delayed_due == 1


def test_terminating_pods_are_not_counted_as_capacity(observed: Look) -> None:
    workers = [WorkerInfo(worker_name("b"), 2, 0.0)]
    look = observed(replicas=2, pods=[pod_body("a"), pod_body("b", ending=True)], workers=workers, busy=2)
    seen = seen_for_scaling(look, 1, 1_700_000_000.0)
    assert seen is not None
    assert (seen.ready, seen.starting, seen.busy_workers) == (1, 1, 0)


def test_a_new_operator_continues_from_the_estimates_in_the_status(observed: Look) -> None:
    look = observed(main=600, scaling={"maxReplicas": 1000})
    fresh = plan(look, Memory(), now=0.0, clock=0.0)
    learned = {"busySeconds": 20.0, "ended": 200, "startSeconds": 8.0, "startDeviation": 0.0, "starts": 9}
    resource = replace(look.resource, status={"scaling": {"estimates": learned}})
    continued = plan(replace(look, resource=resource), Memory(), now=0.0, clock=0.0)
    assert fresh.replicas is not None
    assert continued.replicas is not None
    assert continued.replicas < fresh.replicas / 5  # items of 0.1 s, where 3 s were assumed
    stored = continued.status["scaling"]["estimates"]
    assert (stored["busySeconds"], stored["ended"], stored["startSeconds"]) == (20.0, 200, 8.0)


def test_a_paused_queue_keeps_its_workers_and_gets_no_more(planned: Callable[..., Plan]) -> None:
    decided = planned(seen=snapshot(main=500, age=90.0, paused=True), replicas=2)
    assert (decided.replicas, decided.status["scaling"]["rule"]) == (None, "Paused")


def test_pods_that_start_are_seen_with_how_long_they_have_been_starting(observed: Look) -> None:
    pods = [pod_body("a"), pod_body("b", ready=False)]
    created = parse_time(pods[1]["metadata"]["creationTimestamp"])
    assert created is not None
    seen = seen_for_scaling(observed(replicas=2, pods=pods, main=3), 4, created + 7.0)
    assert seen is not None
    assert (seen.slots, seen.starting_for) == (4, (7.0,))


def test_a_pod_that_was_created_later_by_its_clock_has_just_begun_to_start(observed: Look) -> None:
    pods = [pod_body("a", ready=False)]
    created = parse_time(pods[0]["metadata"]["creationTimestamp"])
    assert created is not None
    seen = seen_for_scaling(observed(replicas=1, pods=pods), 1, created - 5.0)
    assert seen is not None
    assert seen.starting_for == (0.0,)
