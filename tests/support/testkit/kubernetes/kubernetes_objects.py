"""Objects of a worker's world as the API gives them, and looks at its queue."""

from typing import Any

from claimq.model import COUNTERS, Snapshot, State

Body = dict[str, Any]


def pod_body(
    name: str,
    *,
    ready: bool = True,
    ending: bool = False,
    cost: int | None = None,
    revision: str = "aaa",
    created: str = "2026-01-01T00:00:00Z",
) -> Body:
    """A worker pod whose containers run."""
    metadata: Body = {
        "name": name,
        "namespace": "media",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": {"claimq.dev/queue": "thumbs", "pod-template-hash": revision},
        "creationTimestamp": created,
        "ownerReferences": [replica_set("thumbs", revision)],
    }
    if ending:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if cost is not None:
        metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": "node-1", "containers": [{"name": "worker", "image": "app:1"}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "initContainerStatuses": [
                {"name": "claimq-sidecar", "image": "sidecar:1", "restartCount": 0, "state": running}
            ],
            "containerStatuses": [{"name": "worker", "image": "app:1", "restartCount": 0, "state": running}],
        },
    }


def deaf_pod_body(name: str) -> Body:
    """A worker pod whose containers run, and whose app does not listen for its items: the sidecar is not ready."""
    body = pod_body(name, ready=False)
    started = body["metadata"]["creationTimestamp"]
    for kind, is_ready in (("containerStatuses", True), ("initContainerStatuses", False)):
        body["status"][kind][0] |= {"ready": is_ready, "state": {"running": {"startedAt": started}}}
    return body


def replica_set(queue: str, revision: str) -> Body:
    """The controller of a worker pod, as its ownerReferences name it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{queue}-worker-{revision}",
        "uid": f"uid-{queue}-{revision}",
        "controller": True,
    }


def worker_name(pod: str, started: int = 1_767_225_600_000) -> str:
    """As the sidecar of that pod claims: POD.UID.START."""
    return f"{pod}.uid-{pod}.{started}"


def snapshot(
    main: int = 0, busy: int = 0, failed: int = 0, age: float | None = None, **more: Any
) -> Snapshot:
    """One look at a queue."""
    lengths = {State.MAIN: main, State.BUSY: busy, State.DELAYED: 0, State.FAILED: failed}
    ages: dict[State, float | None] = dict.fromkeys(State)
    ages[State.MAIN] = age if age is not None else (0.0 if main else None)
    given: dict[str, Any] = {
        "now": 0.0,
        "seq": 1,
        "counters": dict.fromkeys(COUNTERS, 0) | more.pop("counters", {}),
        "next_due_in": None,
        "paused": False,
        **more,
    }
    return Snapshot(lengths=lengths, ages=ages, **given)


def deployment_body(replicas: int, *, owner: str = "claimq-scale") -> Body:
    """The worker Deployment, its number of replicas owned by `owner`."""
    return {
        "metadata": {
            "name": "thumbs-worker",
            "namespace": "media",
            "uid": "deployment",
            "generation": 2,
            "resourceVersion": "9",
            "labels": {"claimq.dev/queue": "thumbs"},
            "managedFields": [
                {"manager": "claimq-operator", "fieldsV1": {"f:spec": {"f:template": {}}}},
                {"manager": owner, "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ],
        },
        "spec": {"replicas": replicas},
        "status": {
            "observedGeneration": 2,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": 0,
        },
    }
