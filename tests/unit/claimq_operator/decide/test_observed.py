"""One observation: numbers of pods, and whether a rollout is under way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from claimq.model import ServerReport, ServerWarning, State, WorkerInfo
from claimq_control.decide.observed import Observed
from claimq_operator.watch.cache import trim_deployment
from testkit.kubernetes.kubernetes_objects import deployment_body, pod_body, worker_name
from testkit.kubernetes.observations import deployed

Look = Callable[..., Observed]


def test_terminating_pods_count_as_nothing(observed: Look) -> None:
    workers = [WorkerInfo(worker_name(name), 1, 0.0) for name in "ab"]
    look = observed(pods=[pod_body("a"), pod_body("b", ending=True), pod_body("c")], workers=workers)
    assert ([pod.name for pod in look.workers.live], look.workers.ready, look.workers.busy) == (
        ["a", "c"],
        2,
        1,
    )


def test_the_number_of_replicas_is_the_deployments(observed: Look) -> None:
    assert observed(replicas=None).workers.replicas == 0
    look = observed(replicas=3)
    assert look.workers.replicas == 3
    assert deployed(look, spec={}).workers.replicas == 1  # the API's default


@pytest.mark.parametrize(
    ("created", "is_blocked"), [("2026-01-01T00:00:01Z", True), ("2025-12-31T23:59:59Z", False)]
)
def test_a_rollout_is_blocked_by_a_problem_of_the_youngest_template(
    observed: Look, created: str, is_blocked: bool
) -> None:
    failing = pod_body("b", revision="bbb", created=created, ready=False)
    failing["status"]["conditions"].append({"type": "PodScheduled", "status": "False", "message": "full"})
    blocked = observed(pods=[pod_body("a"), failing]).workers.blocked
    assert (blocked is not None and blocked.message == "full") is is_blocked
    assert observed(pods=[failing]).workers.blocked is None


def test_a_full_server_is_reported_only_while_it_is_known(observed: Look) -> None:
    warnings = (ServerWarning("NoAppendOnly", "other"), ServerWarning("Full", "it is full"))
    report = ServerReport("valkey", "9.1", "standalone", warnings)
    assert replace(observed(), report=report).full == "it is full"
    assert replace(observed(unknown=True), report=report).full == ""
    assert observed().full == ""


EXCEEDED = [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]


@pytest.mark.parametrize(
    ("status", "is_rolling_out"),
    [
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1}, True),
        ({"observedGeneration": 2, "replicas": 1}, True),
        ({"observedGeneration": 2}, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "conditions": EXCEEDED}, False),
        ({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2}, False),
    ],
    ids=["done", "one is old", "none is new", "no pods", "given up", "a later generation"],
)
def test_a_rollout_lasts_until_all_pods_are_updated(
    observed: Look, status: dict[str, Any], is_rolling_out: bool
) -> None:
    look = observed(replicas=2)
    assert deployed(look, status=status).workers.is_rolling_out is is_rolling_out


@pytest.mark.parametrize(("revision", "is_rolling_out"), [("aaa", False), ("bbb", True)])
@pytest.mark.parametrize("status", [{"observedGeneration": 1}, {}])
def test_before_the_controller_has_seen_a_template_the_pods_decide(
    observed: Look, status: dict[str, Any], revision: str, is_rolling_out: bool
) -> None:
    look = observed(pods=[pod_body("a"), pod_body("b", revision=revision)])
    assert deployed(look, status=status).workers.is_rolling_out is is_rolling_out


def test_a_deployment_without_a_status_has_not_been_seen_by_its_controller(observed: Look) -> None:
    look = observed(pods=[pod_body("a"), pod_body("b", revision="bbb")])
    first = {**deployment_body(look.workers.replicas)["metadata"], "generation": 1}
    assert deployed(
        look, {**deployment_body(look.workers.replicas), "metadata": first, "status": {}}
    ).workers.is_rolling_out


@pytest.mark.parametrize(("revision", "is_rolling_out"), [("aaa", False), ("bbb", True)])
def test_a_paused_rollout_keeps_the_number_while_there_are_pods_of_two_templates(
    observed: Look, revision: str, is_rolling_out: bool
) -> None:
    """Its controller reports no pod of the newest template for as long as it is paused."""
    look = observed(replicas=2, pods=[pod_body("a"), pod_body("b", revision=revision)])
    status = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 0}
    paused = trim_deployment(
        {**deployment_body(look.workers.replicas), "spec": {"replicas": 2, "paused": True}, "status": status}
    )
    assert deployed(look, paused).workers.is_rolling_out is is_rolling_out


def test_without_a_deployment_nothing_rolls_out(observed: Look) -> None:
    assert not observed(replicas=None).workers.is_rolling_out


@pytest.mark.parametrize(("other", "busy"), [(0, 3), (4, 7)])
def test_items_that_a_worker_has_claimed_ahead_wait(observed: Look, other: int, busy: int) -> None:
    holders = [WorkerInfo(worker_name("a"), 40, 0.0), WorkerInfo(worker_name("b"), 1, 0.0)]
    holders += [WorkerInfo("another-program", other, 0.0)] * (other > 0)
    look = observed(
        pods=[pod_body("a"), pod_body("b")],
        workers=holders,
        main=5,
        busy=41 + other,
        worker={"concurrency": 2},
    ).without_claims_ahead()
    assert look.snapshot is not None
    assert (look.snapshot.lengths[State.MAIN], look.snapshot.lengths[State.BUSY]) == (43, busy)
    assert [worker.busy for worker in look.workers.workers] == [2, 1]


def test_items_claimed_between_two_looks_at_the_server_wait_too(observed: Look) -> None:
    holders = [WorkerInfo(worker_name("a"), 1, 0.0)]
    look = observed(pods=[pod_body("a")], workers=holders, busy=30).without_claims_ahead()
    assert look.snapshot is not None
    assert (look.snapshot.lengths[State.MAIN], look.snapshot.lengths[State.BUSY]) == (29, 1)
