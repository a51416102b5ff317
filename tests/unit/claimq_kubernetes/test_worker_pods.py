"""Worker pods as read from API objects: their queue, problems, claims and what is kept of them."""

import copy

import pytest

from claimq.model import WorkerInfo
from claimq_control.workers import WorkerState
from claimq_kubernetes.worker_pods import claiming_containers, queue_of, queue_of_worker, read_pods, trim_pod
from claimq_process.timestamps import parse_time
from testkit.kubernetes.kubernetes_objects import (
    Body,
    deaf_pod_body,
    pod_body,
    replica_set,
    worker_name,
)


def only(body: Body, *workers: WorkerInfo) -> WorkerState:
    (pod,) = read_pods([body], workers, now=0.0)
    return pod


def waiting(state: Body, last: Body | None = None, kind: str = "containerStatuses") -> Body:
    body = pod_body("a", ready=False)
    body["status"][kind][0] |= {
        "state": {"waiting": state},
        "lastState": {"terminated": last} if last else {},
    }
    return body


def test_a_label_names_the_queue_of_a_child() -> None:
    body = pod_body("a")
    assert queue_of(body) == ("media", "thumbs")
    body["metadata"]["labels"] = {}
    assert queue_of(body) is None
    assert queue_of_worker(body) is None


def test_a_pod_belongs_to_the_queue_whose_replica_set_controls_it() -> None:
    assert queue_of_worker(pod_body("a")) == ("media", "thumbs")


@pytest.mark.parametrize(
    "owner",
    [
        {"controller": False},
        {"kind": "Job"},
        {"apiVersion": "apps/v2"},
        {"name": "thumbs-worker-bbb"},
    ],
    ids=["not its controller", "another kind", "another version", "another name"],
)
def test_a_label_alone_does_not_make_a_pod_a_worker(owner: Body) -> None:
    body = pod_body("a")
    body["metadata"]["ownerReferences"] = [{**replica_set("thumbs", "aaa"), **owner}]
    assert queue_of_worker(body) is None


def test_a_trimmed_pod_keeps_what_is_read_and_nothing_else() -> None:
    body = pod_body("a", ending=True)
    body["metadata"] |= {"managedFields": [{}], "annotations": {"x": "y"}, "finalizers": ["example.com/x"]}
    body["metadata"]["labels"]["team"] = "media"
    mounts = [{"name": "claimq-socket", "mountPath": "/run/claimq"}, {"name": "scratch"}]
    body["spec"]["containers"][0] |= {"volumeMounts": mounts, "env": [{"name": "SECRET"}]}
    trimmed = trim_pod(copy.deepcopy(body))
    assert trimmed["spec"] == {
        "nodeName": "node-1",
        "containers": [{"name": "worker", "image": "app:1", "volumeMounts": [{"name": "claimq-socket"}]}],
    }
    left_out = ("managedFields", "annotations", "finalizers")
    del body["metadata"]["labels"]["team"]
    assert trimmed["metadata"] == {
        key: value for key, value in body["metadata"].items() if key not in left_out
    }
    assert trimmed["status"] == body["status"]


def test_containers_with_the_socket_can_claim_and_the_sidecar_does_not_count() -> None:
    mounts = {"volumeMounts": [{"name": "claimq-socket"}]}
    containers = [{"name": "worker"}, {"name": "claimq-sidecar", **mounts}, {"name": "other", **mounts}]
    assert claiming_containers({"spec": {"containers": containers}}) == {"worker", "other"}
    assert claiming_containers({"spec": {"containers": [{"name": "plain"}]}}) == {"worker"}


def test_pods_are_sorted_and_have_the_claims_of_all_runs_of_their_sidecars() -> None:
    workers = [
        WorkerInfo(worker_name("b", 1), 2, 0.0),
        WorkerInfo(worker_name("b", 2), 3, 0.0),
        WorkerInfo(worker_name("c", 1), 4, 0.0),
    ]
    pods = read_pods([pod_body("b"), pod_body("a")], workers, now=0.0)
    assert [(pod.name, pod.busy) for pod in pods] == [("a", 0), ("b", 5)]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_is_left_out(phase: str) -> None:
    body = pod_body("a")
    body["status"]["phase"] = phase
    assert read_pods([body], now=0.0) == ()


def test_the_fields_of_a_worker_pod() -> None:
    pod = only(pod_body("a", cost=-1000, revision="bbb", created="2026-02-03T04:05:06Z"))
    assert (pod.revision, pod.created_at) == ("bbb", parse_time("2026-02-03T04:05:06Z"))
    assert (pod.is_ready, pod.is_terminating, pod.deletion_cost) == (True, False, -1000)
    assert pod.problem is None
    assert only(pod_body("a", ready=False)).is_ready is False
    assert only(pod_body("a", ending=True)).is_terminating


@pytest.mark.parametrize("annotations", [{}, {"controller.kubernetes.io/pod-deletion-cost": "high"}])
def test_a_deletion_cost_that_is_no_number_counts_as_0(annotations: Body) -> None:
    body = pod_body("a")
    body["metadata"]["annotations"] = annotations
    assert only(body).deletion_cost == 0


@pytest.mark.parametrize(("status", "reason"), [("False", "Unschedulable"), ("True", None)])
def test_a_pod_that_is_not_scheduled_has_a_problem(status: str, reason: str | None) -> None:
    body = pod_body("a", ready=False)
    body["status"]["conditions"].append({"type": "PodScheduled", "status": status, "message": "no node"})
    problem = only(body).problem
    assert (problem and problem.reason, problem and problem.message) == (reason, reason and "no node")


@pytest.mark.parametrize("reason", ["PodInitializing", "ContainerCreating"])
def test_a_container_that_is_being_created_is_no_problem(reason: str) -> None:
    assert only(waiting({"reason": reason})).problem is None


@pytest.mark.parametrize("kind", ["initContainerStatuses", "containerStatuses"])
def test_a_container_that_waits_for_another_reason_is_a_problem(kind: str) -> None:
    problem = only(waiting({"reason": "ErrImagePull"}, kind=kind)).problem
    assert problem is not None
    name = {"initContainerStatuses": "claimq-sidecar", "containerStatuses": "worker"}[kind]
    assert (problem.reason, problem.worker) == ("ErrImagePull", "pod a")
    assert problem.message == f"container {name}: ErrImagePull"


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"exitCode": 1, "reason": "Error"}, "exit code 1"),
        ({"reason": "OOMKilled", "exitCode": 137}, "exit code 137 (OOMKilled)"),
        (
            {"reason": "OOMKilled", "exitCode": 7},
            "exit code 7 (a child process was killed for its memory earlier)",
        ),
        ({"message": "x" * 301}, f"exit code 0 ({'x' * 300})"),
    ],
    ids=["no information", "a reason", "a killed child", "a long message"],
)
def test_a_problem_reports_how_the_previous_run_ended(last: Body, text: str) -> None:
    problem = only(waiting({"reason": "CrashLoopBackOff", "message": "back-off"}, last)).problem
    assert problem is not None
    assert problem.message == f"container worker: back-off; its previous run ended with {text}"


def test_the_name_that_a_sidecar_leaves_is_not_reported_as_a_cause() -> None:
    last = {"exitCode": 1, "reason": "Error", "message": "a.uid-a.1500"}
    problem = only(waiting({"reason": "CrashLoopBackOff"}, last, kind="initContainerStatuses")).problem
    assert problem is not None
    assert problem.message == (
        "container claimq-sidecar: CrashLoopBackOff; its previous run ended with exit code 1"
    )


def test_a_pod_whose_sidecar_alone_is_not_ready_names_what_it_may_wait_for() -> None:
    body = deaf_pod_body("a")
    hint = only(body).hint
    assert "the app does not listen on $CLAIMQ_PUSH_PORT" in hint
    assert "`kubectl logs a --namespace=media --container=claimq-sidecar`" in hint
    body["status"]["containerStatuses"][0]["ready"] = False
    assert "kubectl describe pod a" in only(body).hint
    body["status"]["containerStatuses"][0] = {"name": "worker", "ready": True, "state": {"waiting": {}}}
    assert "kubectl describe pod a" in only(body).hint


@pytest.mark.parametrize("field", ["Ready", "the app's start", "the sidecar's start"])
def test_a_sidecar_that_is_not_ready_for_a_minute_is_a_problem(field: str) -> None:
    last = "2026-01-01T00:10:00Z"
    body = deaf_pod_body("a")
    status = body["status"]
    places = {
        "Ready": (status["conditions"][0], "lastTransitionTime"),
        "the app's start": (status["containerStatuses"][0]["state"]["running"], "startedAt"),
        "the sidecar's start": (status["initContainerStatuses"][0]["state"]["running"], "startedAt"),
    }
    place, key = places[field]
    place[key] = last
    at = parse_time(last) or 0.0
    assert read_pods([body], now=at + 60)[0].problem is None
    problem = read_pods([body], now=at + 61)[0].problem
    assert problem is not None
    assert (problem.reason, problem.worker) == ("AppNotReady", "pod a")
    assert "the app does not listen on $CLAIMQ_PUSH_PORT" in problem.message
    assert problem.fix == "see `kubectl logs a --namespace=media --container=claimq-sidecar`"
    assert read_pods([pod_body("a", ready=False)], now=at + 3600)[0].problem is None
