"""Condition WorkersAvailable: which problem it reports, and in which words."""

from collections.abc import Callable

import pytest

from claimq_control.decide.conditions import View, all_conditions
from claimq_control.decide.conditions.condition import Condition
from claimq_control.decide.conditions.workers_available import workers_available
from claimq_control.decide.observed import Observed
from claimq_operator.watch.cache import trim_deployment
from testkit.kubernetes.kubernetes_objects import Body, deployment_body, pod_body
from testkit.kubernetes.observations import deployed

Look = Callable[..., Observed]


def with_condition(look: Observed, **condition: str) -> Observed:
    """The observation with this condition of the Deployment."""
    return deployed(look, status={"conditions": [condition]})


def found(look: Observed, wanted: int = 1) -> tuple[str, str, str]:
    one: Condition = workers_available(View(look, None, wanted))
    return one.status, one.reason, one.message


def unschedulable(name: str, message: str) -> Body:
    body = pod_body(name, ready=False)
    body["status"]["conditions"].append({"type": "PodScheduled", "status": "False", "message": message})
    return body


def test_a_rollout_that_exceeds_its_deadline_is_reported(observed: Look) -> None:
    look = with_condition(
        observed(replicas=1), type="Progressing", reason="ProgressDeadlineExceeded", message="too slow"
    )
    assert found(look) == ("False", "ProgressDeadlineExceeded", "0 of 1 workers are ready: too slow")


@pytest.mark.parametrize(
    "condition",
    [
        {"type": "Progressing", "reason": "NewReplicaSetAvailable", "message": "fine"},
        {"type": "Available", "reason": "ProgressDeadlineExceeded", "message": "of another type"},
        {"type": "ReplicaFailure", "status": "False", "reason": "FailedCreate", "message": "over"},
        {"type": "Available", "status": "True", "reason": "FailedCreate", "message": "of another type"},
    ],
    ids=["progress", "another type", "a failure that is over", "another true condition"],
)
def test_other_conditions_of_the_deployment_are_no_problem(observed: Look, condition: dict[str, str]) -> None:
    assert found(with_condition(observed(replicas=1), **condition)) == (
        "False",
        "Starting",
        "0 of 1 workers are ready, starting",
    )


@pytest.mark.parametrize(
    ("condition", "reason", "text"),
    [
        ({"type": "ReplicaFailure", "status": "True"}, "PodsRefused", "pods could not be created"),
        (
            {"type": "Progressing", "reason": "ProgressDeadlineExceeded"},
            "ProgressDeadlineExceeded",
            "the workers did not become ready in time",
        ),
    ],
)
def test_a_problem_without_words_gets_some(
    observed: Look, condition: dict[str, str], reason: str, text: str
) -> None:
    assert found(with_condition(observed(replicas=1), **condition)) == (
        "False",
        reason,
        f"0 of 1 workers are ready: {text}",
    )


def test_a_pod_that_starts_is_named_with_the_command_that_shows_why_it_waits(observed: Look) -> None:
    message = found(observed(replicas=1, pods=[pod_body("a", ready=False)]))[2]
    assert "`kubectl describe pod a --namespace=media`" in message


@pytest.mark.parametrize(
    ("reason", "is_ready", "is_named"),
    [("PodInitializing", False, True), ("PodInitializing", True, False), ("ContainerCreating", False, False)],
)
def test_an_init_container_that_does_not_end_is_named(
    observed: Look, reason: str, is_ready: bool, is_named: bool
) -> None:
    body = pod_body("a", ready=False)
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    body["status"]["initContainerStatuses"] = [{"name": "migrate", "ready": is_ready, "state": running}]
    body["status"]["containerStatuses"] = [{"name": "worker", "state": {"waiting": {"reason": reason}}}]
    message = found(observed(replicas=1, pods=[body]))[2]
    assert ("`kubectl logs a --namespace=media --container=migrate`" in message) is is_named
    assert ("kubectl describe pod a" in message) is not is_named


def test_a_pod_that_still_starts_after_the_deadline_is_named_too(observed: Look) -> None:
    look = observed(replicas=1, pods=[pod_body("a", ready=False)])
    late = with_condition(look, type="Progressing", reason="ProgressDeadlineExceeded", message="too slow")
    status, reason, message = found(late)
    assert (status, reason) == ("False", "ProgressDeadlineExceeded")
    assert "too slow; if this persists, run `kubectl describe pod a --namespace=media`" in message


@pytest.mark.parametrize(
    ("ready", "wanted", "reason", "message"),
    [
        (0, 0, "NoneWanted", "no workers are needed"),
        (1, 1, "AllReady", "1 of 1 workers are ready"),
        (3, 2, "AllReady", "3 workers are ready, 1 more than the 2 wanted"),
    ],
)
def test_enough_workers_are_available(
    observed: Look, ready: int, wanted: int, reason: str, message: str
) -> None:
    look = observed(replicas=wanted, pods=[pod_body(name) for name in "abc"[:ready]])
    assert found(look, wanted) == ("True", reason, message)


def test_some_ready_workers_are_available_and_the_cause_of_the_others_is_named(observed: Look) -> None:
    look = observed(replicas=2, pods=[pod_body("a"), unschedulable("b", "no room")])
    status, reason, message = found(look, 2)
    assert (status, reason) == ("True", "SomeReady")
    assert message.startswith("1 of 2 workers are ready; Unschedulable: pod b: no room; lower ")
    starting = observed(replicas=2, pods=[pod_body("a"), pod_body("b", ready=False)])
    assert found(starting, 2) == ("True", "SomeReady", "1 of 2 workers are ready")


QUOTA = {
    "type": "ReplicaFailure",
    "status": "True",
    "reason": "FailedCreate",
    "message": 'pods "b" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2',
}
LATE = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "too slow"}


def rolling_out(
    look: Observed, *, old: int, paused: bool = False, condition: dict[str, str] | None = None
) -> Observed:
    """The observation of a Deployment of which this many pods have the previous template."""
    count = look.workers.replicas
    body = {
        **deployment_body(look.workers.replicas),
        "spec": {"replicas": count, "paused": paused},
        "status": {
            "observedGeneration": 2,
            "replicas": count,
            "updatedReplicas": count - old,
            "conditions": [condition] if condition else [],
        },
    }
    return deployed(look, trim_deployment(body))


@pytest.mark.parametrize(
    ("paused", "condition", "text"),
    [
        (False, QUOTA, 'FailedCreate: pods "b" is forbidden: exceeded quota: small'),
        (False, LATE, "ProgressDeadlineExceeded: too slow"),
        (True, {}, "`kubectl rollout resume deployment thumbs-worker --namespace=media`"),
    ],
    ids=["quota", "never ready", "paused"],
)
def test_a_rollout_that_cannot_go_on_is_reported_although_all_workers_are_ready(
    observed: Look, paused: bool, condition: dict[str, str], text: str
) -> None:
    look = rolling_out(
        observed(replicas=2, pods=[pod_body("a"), pod_body("b")]), old=2, paused=paused, condition=condition
    )
    status, reason, message = found(look, 2)
    assert (status, reason) == ("True", "RolloutBlocked")
    assert message.startswith("2 of 2 workers are ready, but the rollout is stuck: ")
    assert text in message
    ready = {one.type: one for one in all_conditions(View(look, None, 2))}["Ready"]
    assert (ready.status, ready.reason) == ("True", "RolloutBlocked")


@pytest.mark.parametrize(
    ("paused", "condition"), [(False, QUOTA), (False, LATE), (True, {})], ids=["quota", "late", "paused"]
)
def test_without_pods_of_a_previous_template_no_rollout_is_blocked(
    observed: Look, paused: bool, condition: dict[str, str]
) -> None:
    pods = [pod_body("a"), pod_body("b")]
    look = rolling_out(observed(replicas=2, pods=pods), old=0, paused=paused, condition=condition)
    assert found(look, 2)[:2] == ("True", "AllReady")


@pytest.mark.parametrize(
    ("workers", "spec", "is_named"), [(3, {}, True), (4, {}, False), (3, {"maxUnavailable": 1}, False)]
)
def test_a_blocked_rollout_of_few_workers_names_the_field_that_makes_room(
    observed: Look, workers: int, spec: dict[str, int], is_named: bool
) -> None:
    pods = [pod_body(name) for name in "abcd"[:workers]]
    look = rolling_out(observed(replicas=workers, pods=pods, worker=spec), old=workers, condition=QUOTA)
    assert ("or set spec.worker.maxUnavailable: 1" in found(look, workers)[2]) is is_named


def test_a_paused_deployment_that_has_never_had_a_pod_is_reported(observed: Look) -> None:
    look = rolling_out(observed(replicas=1), old=0, paused=True)
    status, reason, message = found(look)
    assert (status, reason) == ("False", "DeploymentPaused")
    assert "kubectl rollout resume" in message


def test_a_rollout_without_a_ready_worker_is_no_blocked_rollout(observed: Look) -> None:
    new = unschedulable("b", "no room")
    new["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:09Z"}
    new["metadata"]["labels"]["pod-template-hash"] = "bbb"
    look = observed(replicas=1, pods=[pod_body("a", ready=False), new])
    assert found(look)[:2] == ("False", "Unschedulable")


@pytest.mark.parametrize(
    ("length", "shown"), [(600, "a" + "x" * 599), (601, "..." + "x" * 600)], ids=["fits", "too long"]
)
def test_a_long_message_is_cut_at_its_start(observed: Look, length: int, shown: str) -> None:
    message = "a" + "x" * (length - 1)
    look = with_condition(
        observed(replicas=1), type="ReplicaFailure", status="True", reason="Other", message=message
    )
    assert found(look)[2] == f"0 of 1 workers are ready: {shown}"


@pytest.mark.parametrize(("reason", "shown"), [("err-pull 2", "Errpull"), ("404", "NotReady"), ("a", "A")])
def test_the_reason_of_a_problem_becomes_one_that_the_api_accepts(
    observed: Look, reason: str, shown: str
) -> None:
    look = with_condition(
        observed(replicas=1), type="ReplicaFailure", status="True", reason=reason, message="m"
    )
    assert found(look)[1] == shown
