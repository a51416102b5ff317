"""Which terminations are certain, which claims they held, and their causes."""

import copy
from typing import Any

import pytest

from claimq.model import Reason, WorkerInfo
from claimq_control.workers import Termination, terminated_workers
from claimq_kubernetes.terminations import terminations_of
from claimq_kubernetes.worker_pods import trim_pod

Body = dict[str, Any]

ENDED = {
    "containerID": "containerd://old",
    "exitCode": 137,
    "reason": "OOMKilled",
    "startedAt": "2026-01-01T00:00:00Z",
    "finishedAt": "2026-01-01T00:10:00Z",
}
TARGET = {"type": "DisruptionTarget", "status": "True"}
DELETED = {"deletionTimestamp": "2026-01-01T00:10:00Z"}
REJECTED = "Pod was rejected: The node had condition: [DiskPressure]. "
BEFORE_ALL = 1_767_225_600_500  # 2026-01-01T00:00:00.5Z
AFTER_RESTART = 1_767_226_205_000  # 2026-01-01T00:10:05Z


def pod(*, sidecar: Body | None = None, app: Body | None = None, **more: Any) -> Body:
    running = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}, "restartCount": 0}
    status: Body = {
        "initContainerStatuses": [{"name": "claimq-sidecar", "image": "sidecar:1", **(sidecar or running)}],
        "containerStatuses": [{"name": "worker", "image": "app:1", **(app or running)}],
    }
    metadata: Body = {"name": "p", "namespace": "media", "uid": "u", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": {**status, **more}}


def restarted() -> Body:
    return {
        "restartCount": 1,
        "state": {"running": {"startedAt": "2026-01-01T00:10:03Z"}},
        "lastState": {"terminated": ENDED},
    }


def only(body: Body) -> Termination:
    found = terminations_of(body)
    assert len(found) == 1
    return found[0]


def busy(started: int, uid: str = "u", claims: int = 2) -> WorkerInfo:
    return WorkerInfo(f"p.{uid}.{started}", claims, 0.0)


def test_a_running_pod_has_no_termination() -> None:
    assert terminations_of(pod()) == ()


def left_by(worker: WorkerInfo) -> Body:
    """A termination in which the sidecar has left its worker's name."""
    return {"terminated": {**ENDED, "message": f"{worker.worker}\n"}}


def test_a_terminated_sidecar_proves_its_worker_terminated() -> None:
    worker = busy(BEFORE_ALL)
    termination = only(pod(sidecar={"restartCount": 0, "state": left_by(worker)}))
    assert terminated_workers(termination, [worker]) == (worker.worker,)


@pytest.mark.parametrize("behind", [0, 5_000, 3_600_000, -5_000])
def test_a_restarted_sidecar_keeps_its_claims_whatever_its_clock_shows(behind: int) -> None:
    old, new = busy(BEFORE_ALL - behind), busy(AFTER_RESTART - behind)
    termination = only(pod(sidecar=restarted() | {"lastState": left_by(old)}))
    assert terminated_workers(termination, [old, new]) == (old.worker,)


def test_a_sidecar_that_left_no_name_leaves_its_claims_to_their_leases() -> None:
    termination = only(pod(sidecar=restarted()))
    assert terminated_workers(termination, [busy(BEFORE_ALL), busy(AFTER_RESTART)]) == ()


def test_a_sidecars_last_message_cannot_name_a_worker_of_another_pod() -> None:
    other = busy(AFTER_RESTART, uid="another")
    sidecar = {"restartCount": 0, "state": {"terminated": {**ENDED, "message": other.worker}}}
    assert terminated_workers(only(pod(sidecar=sidecar)), [other]) == ()


def test_a_worker_that_holds_nothing_needs_no_call() -> None:
    worker = busy(BEFORE_ALL, claims=0)
    termination = only(pod(sidecar={"restartCount": 0, "state": left_by(worker)}))
    assert terminated_workers(termination, [worker]) == ()


def test_a_status_without_the_containers_id_proves_nothing() -> None:
    unknown = {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": "2026-01-01T00:10:00Z"}
    assert terminations_of(pod(sidecar={"restartCount": 0, "state": {"terminated": unknown}})) == ()


def test_a_force_deleted_pod_that_was_running_proves_nothing() -> None:
    assert terminations_of(pod(metadata={"deletionTimestamp": "2026-01-01T00:10:00Z"})) == ()


@pytest.mark.parametrize(
    ("state", "more", "is_last"),
    [
        ({"terminated": ENDED}, {}, False),
        ({"terminated": ENDED}, {"metadata": DELETED}, True),
        ({"terminated": ENDED}, {"phase": "Failed"}, True),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {}, True),
        ({"waiting": {"reason": "ContainerCreating"}}, {}, False),
        ({"running": {"startedAt": "2026-01-01T00:10:03Z"}}, {}, False),
        ({"running": {"startedAt": "2026-01-01T00:10:03Z"}}, {"metadata": DELETED}, False),
    ],
    ids=["ended", "deleted", "finished", "backing off", "starting", "runs again", "runs again and deleted"],
)
def test_the_last_run_of_an_app_is_one_that_no_other_follows_soon(
    state: Body, more: Body, is_last: bool
) -> None:
    last = {} if "terminated" in state else {"lastState": {"terminated": ENDED}}
    termination = only(pod(app={"restartCount": 1, "state": state, **last}, **more))
    assert (termination.is_sidecar, termination.is_last) == (False, is_last)


def with_another(body: Body, state: Body, *, claims: bool, kind: str = "containers") -> Body:
    """The trimmed pod with one more container, which mounts the socket or not."""
    mounts = [{"name": "claimq-socket", "mountPath": "/run/claimq"}, {"name": "scratch", "mountPath": "/tmp"}]
    own = {"name": "worker", "image": "app:1", "volumeMounts": mounts}
    other = {"name": "other", "image": "other:1", "volumeMounts": mounts if claims else mounts[1:]}
    sidecar = {"name": "claimq-sidecar", "image": "sidecar:1", "volumeMounts": mounts}
    spec: Body = {"nodeName": "node-1", "containers": [own], "initContainers": [sidecar]}
    spec[kind].append(other)
    statuses = "containerStatuses" if kind == "containers" else "initContainerStatuses"
    body["status"][statuses].append({"name": "other", "state": state})
    return trim_pod({**body, "spec": spec})


RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_an_app_beside_another_claiming_container_keeps_its_leases(kind: str) -> None:
    assert terminations_of(with_another(pod(app=restarted()), RUNNING, claims=True, kind=kind)) == ()


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_an_app_beside_a_container_without_the_socket_terminates_like_a_single_one(kind: str) -> None:
    termination = only(with_another(pod(app=restarted()), RUNNING, claims=False, kind=kind))
    assert termination == only(pod(app=restarted()))


def test_a_finished_pod_has_no_running_claiming_container() -> None:
    ended: Body = {"restartCount": 0, "state": {"terminated": ENDED}}
    evicted: Body = {"phase": "Failed", "reason": "Evicted", "message": 'Container other exceeded "1Mi". '}
    termination = only(with_another(pod(app=ended, **evicted), {"terminated": ENDED}, claims=True))
    assert (termination.reason, termination.is_sidecar, termination.is_last) == (Reason.CRASHED, False, False)
    assert 'evicted (Container other exceeded "1Mi".)' in termination.cause
    assert terminations_of(with_another(pod(app=ended), {"terminated": ENDED}, claims=True)) == ()


def test_the_cause_names_container_exit_node_image_and_run() -> None:
    assert only(pod(sidecar=restarted())).cause == (
        "claimq-sidecar ended: OOMKilled, exit code 137 (signal 9); pod p, node node-1, image sidecar:1, run 1"
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "exit code 1;"),
        (128, "exit code 128;"),
        (129, "exit code 129 (signal 1);"),
        (143, "exit code 143 (signal 15);"),
        (159, "exit code 159 (signal 31);"),
        (160, "exit code 160;"),
    ],
)
def test_an_exit_code_names_its_signal_if_it_stands_for_one(code: int, text: str) -> None:
    ended = {**ENDED, "exitCode": code, "reason": "Error"}
    termination = only(pod(app={"restartCount": 0, "state": {"terminated": ended}}))
    assert termination.cause.startswith(f"worker ended: {text} pod p,")


@pytest.mark.parametrize(
    ("state", "restarts", "run"),
    [
        ({"terminated": ENDED}, {}, 1),
        ({"terminated": ENDED}, {"restartCount": 2}, 3),
        ({"waiting": {"reason": "CrashLoopBackOff"}}, {"restartCount": 2}, 2),
        ({"running": {"startedAt": "2026-01-01T00:10:03Z"}}, {"restartCount": 2}, 2),
    ],
    ids=["first", "third", "waiting", "running"],
)
def test_the_cause_has_the_number_of_the_run_that_ended(state: Body, restarts: Body, run: int) -> None:
    last = {} if "terminated" in state else {"lastState": {"terminated": ENDED}}
    assert only(pod(app={"state": state, **restarts, **last})).cause.endswith(f"run {run}")


@pytest.mark.parametrize("reason", ["Error", "Completed"])
def test_a_reason_without_information_is_left_out_of_the_cause(reason: str) -> None:
    ended = {"terminated": {**ENDED, "reason": reason, "exitCode": 0}}
    assert only(pod(app={"state": ended})).cause.startswith("worker ended: exit code 0; pod p")


def test_a_cause_without_node_and_image_calls_them_unknown() -> None:
    body = pod(app={"image": "", "state": {"terminated": ENDED}})
    body["spec"]["nodeName"] = ""
    assert "node unknown, image unknown" in only(body).cause


def test_a_long_message_of_an_eviction_is_cut() -> None:
    body = pod(sidecar={"state": {"terminated": ENDED}}, reason="Evicted", message="x" * 201)
    assert f"evicted ({'x' * 200})," in only(body).cause


def test_the_cause_of_an_eviction_without_a_final_state_has_no_exit_code() -> None:
    running = {"restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    termination = only(pod(app=running, phase="Failed", reason="Evicted", message="used too much"))
    assert termination.cause.startswith("worker ended: evicted (used too much); pod p")


def test_a_termination_without_an_end_proves_nothing() -> None:
    ended = {key: value for key, value in ENDED.items() if key != "finishedAt"}
    assert terminations_of(pod(sidecar={"restartCount": 0, "state": {"terminated": ended}})) == ()


def test_the_termination_of_an_app_proves_nothing_about_workers() -> None:
    termination = only(pod(app={"restartCount": 0, "state": {"terminated": ENDED}}))
    assert terminated_workers(termination, [busy(BEFORE_ALL)]) == ()


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, Reason.CRASHED),
        ({"conditions": [{**TARGET, "status": "False", "reason": "DeletionByPodGC"}]}, Reason.CRASHED),
        ({"conditions": [{"type": "Ready", "status": "True"}]}, Reason.CRASHED),
        ({"conditions": [{**TARGET, "reason": "SomethingNew"}]}, Reason.CRASHED),
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, Reason.INTERRUPTED),
        ({"reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds the limit."}, Reason.CRASHED),
        ({"reason": "Evicted", "message": "Container worker exceeded its local ephemeral storage."}, Reason.CRASHED),
        ({"reason": "Evicted", "message": "Container claimq-sidecar exceeded its storage."}, Reason.INTERRUPTED),
        ({"conditions": [{**TARGET, "reason": "PreemptionByScheduler"}]}, Reason.INTERRUPTED),
        ({"conditions": [{**TARGET, "reason": "DeletionByDeviceTaintManager"}]}, Reason.INTERRUPTED),
        ({"conditions": [{**TARGET, "reason": "SomethingNew"}], "metadata": DELETED}, Reason.INTERRUPTED),
        ({"reason": "Evicted", "message": REJECTED}, Reason.INTERRUPTED),
        ({"reason": "OutOfmemory", "message": "Pod was rejected: Node didn't have enough."}, Reason.INTERRUPTED),
        ({"metadata": DELETED}, Reason.INTERRUPTED),
    ],
    ids=[
        *("crash", "no-disruption", "no-target", "new-reason", "node-pressure", "own-usage", "app's usage"),
        *("sidecar's usage", "preempted", "device taint", "new reason and deleted"),
        *("disk pressure after a restart of the kubelet", "rejected", "deleted"),
    ],
)  # fmt: skip
def test_a_pod_removed_by_the_cluster_is_an_interruption(more: Body, reason: Reason) -> None:
    body = pod(sidecar={"restartCount": 0, "state": {"terminated": ENDED}}, **copy.deepcopy(more))
    assert only(body).reason is reason


def test_an_eviction_is_recorded_with_the_kubelets_message() -> None:
    body = pod(
        sidecar={"restartCount": 0, "state": {"terminated": ENDED}},
        reason="Evicted",
        message="The node was low on resource: memory.",
    )
    assert "evicted (The node was low on resource: memory.)" in only(body).cause


def test_a_pod_that_its_node_rejects_has_the_kubelets_message_in_the_cause() -> None:
    ended = {"restartCount": 0, "state": {"terminated": ENDED}}
    cause = only(pod(sidecar=ended, phase="Failed", reason="NodeAffinity", message=REJECTED)).cause
    assert (
        f"claimq-sidecar ended: rejected by the node ({REJECTED.strip()}), OOMKilled, exit code 137" in cause
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (7, "a child process was killed for its memory earlier, exit code 7;"),
        (0, "a child process was killed for its memory earlier, exit code 0;"),
        (143, "a child process was killed for its memory earlier, exit code 143 (signal 15);"),
        (137, "OOMKilled, exit code 137 (signal 9);"),
        (None, "OOMKilled;"),
    ],
)
def test_only_a_container_that_was_killed_itself_counts_as_out_of_memory(
    code: int | None, words: str
) -> None:
    body = pod(app={"restartCount": 0, "state": {"terminated": {**ENDED, "exitCode": code}}})
    assert only(body).cause.startswith(f"worker ended: {words} pod p,")


def test_an_eviction_counts_even_without_a_final_container_status() -> None:
    lost = {
        "restartCount": 1,
        "state": {"waiting": {"reason": "PodInitializing"}},
        "lastState": {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137}},
    }
    used = "Pod ephemeral local storage usage exceeds the total limit of containers 10Mi."
    body = pod(app=lost, sidecar=lost, phase="Failed", reason="Evicted", message=used)
    termination = only(body)
    assert (termination.is_sidecar, termination.is_last, termination.reason) == (False, False, Reason.CRASHED)
    assert termination.cause == (
        f"worker ended: evicted ({used}), ContainerStatusUnknown, exit code 137 (signal 9); pod p, node node-1, "
        "image app:1, run 1"
    )
    del body["status"]["phase"]  # it is being ended
    assert terminations_of(body) == ()


def test_a_termination_keeps_no_more_of_a_status_than_an_item_does() -> None:
    ended = {"terminated": {**ENDED, "reason": "x" * 20_000, "message": "y" * 20_000}}
    body = pod(sidecar={"state": ended, "restartCount": 0, "image": "z" * 20_000})
    termination = only(body)
    assert termination.cause == f"claimq-sidecar ended: {'x' * 978}"
    assert termination.worker == ""
    ended["terminated"]["containerID"] = "containerd://" + "0" * 200
    assert terminations_of(body) == ()
