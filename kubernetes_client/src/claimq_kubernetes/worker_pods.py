"""Reads worker pods from API objects, and maps worker names to pods. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from claimq.model import WorkerInfo
from claimq_control.decide.conditions.workers_available import APP_NOT_READY
from claimq_control.workers import WorkerProblem, WorkerState
from claimq_kubernetes.advice import advice
from claimq_kubernetes.kept import kept_metadata, kept_part, too_much
from claimq_kubernetes.labels import DELETION_COST, child_name
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.queue_resource import Key
from claimq_process.names import (
    APP_CONTAINER,
    COMPONENT_LABEL,
    QUEUE_LABEL,
    SIDECAR_CONTAINER,
    SOCKET_VOLUME,
    worker_prefix,
)
from claimq_process.timestamps import parse_time

_TEMPLATE_LABEL = "pod-template-hash"
_LABELS = (QUEUE_LABEL, COMPONENT_LABEL, _TEMPLATE_LABEL)
SIDECAR_WAITS = (
    "its sidecar is not ready: the app does not listen on $CLAIMQ_PUSH_PORT or $CLAIMQ_PUSH_SOCKET, "
    "or the server does not answer"
)
"""Why a pod is not ready if :func:`waits_for_sidecar` is true of it."""
START_SECONDS = 60.0
"""How long a sidecar may be not ready, while all containers run, before that is a problem."""
_SIGKILLED = 137
"""The exit code of a container whose first process was killed by SIGKILL."""


def queue_of(body: Mapping[str, Any]) -> Key | None:
    """The queue of a child or a pod, by its label."""
    metadata = body["metadata"]
    name = part(metadata, "labels").get(QUEUE_LABEL)
    return (metadata["namespace"], name) if name else None


def queue_of_worker(pod: Mapping[str, Any]) -> Key | None:
    """The queue of a worker pod: that of its label, if a ReplicaSet of the queue's Deployment controls the pod.

    A label alone can be put on any pod. The Deployment controller names its ReplicaSets DEPLOYMENT-HASH, with the hash
    that is also a label of the pods, so this needs no right to read ReplicaSets.
    """
    key = queue_of(pod)
    if key is None:
        return None
    metadata = pod["metadata"]
    replica_set = f"{child_name(key[1])}-{part(metadata, 'labels').get(_TEMPLATE_LABEL, '')}"
    is_controlled = any(
        owner.get("controller")
        and (owner.get("apiVersion"), owner.get("kind"), owner.get("name"))
        == ("apps/v1", "ReplicaSet", replica_set)
        for owner in parts(metadata, "ownerReferences")
    )
    return key if is_controlled else None


def trim_pod(pod: Mapping[str, Any]) -> Json:
    """The fields of a pod to keep in memory: a cluster may have thousands of pods. Of a pod whose status or containers
    are over their bound only the existence is kept, since a pod without a status proves nothing."""
    spec = part(pod, "spec")
    containers = [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "volumeMounts": _socket_mounts(container),
        }
        for kind in ("containers", "initContainers")
        for container in parts(spec, kind)
    ]
    is_large = bool(too_much(containers))
    return {
        "metadata": kept_metadata(pod, labels=_LABELS, annotations=(DELETION_COST,)),
        "spec": {"nodeName": spec.get("nodeName", ""), "containers": [] if is_large else containers},
        "status": {} if is_large else kept_part(pod, "status"),
    }


def _socket_mounts(container: Mapping[str, Any]) -> list[Json]:
    return [
        {"name": SOCKET_VOLUME}
        for mount in parts(container, "volumeMounts")
        if mount.get("name") == SOCKET_VOLUME
    ]


def claiming_containers(pod: Mapping[str, Any]) -> frozenset[str]:
    """The containers that can claim through the pod's sidecar: the app, and others that mount its socket."""
    containers = parts(part(pod, "spec"), "containers")
    app_containers = {container["name"] for container in containers if _socket_mounts(container)} - {
        SIDECAR_CONTAINER
    }
    return frozenset(app_containers | {APP_CONTAINER})


def is_finished(pod: Mapping[str, Any]) -> bool:
    """Whether all its containers have exited for good. Such objects can remain for long, for example evicted pods."""
    return part(pod, "status").get("phase") in ("Failed", "Succeeded")


def read_pods(
    bodies: Iterable[Mapping[str, Any]], workers: Iterable[WorkerInfo] = (), *, now: float
) -> tuple[WorkerState, ...]:
    """The pods that are not finished, each with its number of claims, sorted by name. ``now``: Unix seconds."""
    held_pods: dict[str, int] = {}
    for info in workers:
        prefix = info.worker.rpartition(".")[0] + "."
        held_pods[prefix] = held_pods.get(prefix, 0) + info.busy
    return tuple(
        sorted(
            (_read(body, held_pods, now) for body in bodies if not is_finished(body)),
            key=lambda pod: pod.name,
        )
    )


def _read(body: Mapping[str, Any], held_pods: Mapping[str, int], now: float) -> WorkerState:
    metadata, status = body["metadata"], part(body, "status")
    conditions = {condition["type"]: condition for condition in parts(status, "conditions")}
    name, ready = metadata["name"], conditions.get("Ready", {})
    return WorkerState(
        name=name,
        is_ready=ready.get("status") == "True",
        is_terminating="deletionTimestamp" in metadata,
        revision=part(metadata, "labels").get(_TEMPLATE_LABEL, ""),
        created_at=parse_time(metadata.get("creationTimestamp")) or 0.0,
        ready_at=parse_time(ready.get("lastTransitionTime")) or 0.0,
        deletion_cost=_cost(part(metadata, "annotations").get(DELETION_COST, "0")),
        problem=_problem(name, status, conditions)
        or _sidecar_problem(name, metadata["namespace"], status, ready, now),
        hint=_hint(name, metadata["namespace"], status),
        busy=held_pods.get(worker_prefix(name, metadata["uid"]), 0),
    )


def _hint(name: str, namespace: str, status: Mapping[str, Any]) -> str:
    """The command for a pod that stays pending: its status does not report a volume that cannot be mounted, nor whether
    an init container will end."""
    if container := _init_container(status):
        command = f"kubectl logs {name} --namespace={namespace} --container={container}"
        return (
            f"; pod {name}: the init container {container} is running and the app starts after it: if this persists, "
            f"run `{command}`, and correct it in spec.worker.template"
        )
    if waits_for_sidecar(status):
        return f"; pod {name}: {SIDECAR_WAITS}: if this persists, run `{_sidecar_log(name, namespace)}`"
    command = f"kubectl describe pod {name} --namespace={namespace}"
    return f"; if this persists, run `{command}` to see the cause, such as a volume of spec.worker.template"


def _sidecar_log(name: str, namespace: str) -> str:
    return f"kubectl logs {name} --namespace={namespace} --container={SIDECAR_CONTAINER}"


def waits_for_sidecar(status: Mapping[str, Any]) -> bool:
    """Whether all containers of a pod run and only the sidecar is not ready. The reason is not in the pod's status: the
    sidecar gives it in its answer to the probe."""
    apps, init = parts(status, "containerStatuses"), parts(status, "initContainerStatuses")
    containers = [*apps, *(container for container in init if container.get("name") == SIDECAR_CONTAINER)]
    not_ready = [container for container in containers if not container.get("ready")]
    return [container.get("name") for container in not_ready] == [SIDECAR_CONTAINER] and all(
        "running" in part(container, "state") for container in containers
    )


def _init_container(status: Mapping[str, Any]) -> str:
    """The init container that runs and that the app's container waits for; empty if there is none."""
    waiting = [part(part(container, "state"), "waiting") for container in parts(status, "containerStatuses")]
    if not any(state.get("reason") == "PodInitializing" for state in waiting):
        return ""
    # One that is not a sidecar is ready only when it has ended.
    init = parts(status, "initContainerStatuses")
    return next(
        (
            str(container["name"])
            for container in init
            if "running" in part(container, "state") and not container.get("ready")
        ),
        "",
    )


def _cost(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _problem(
    pod: str, status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]
) -> WorkerProblem | None:
    """The first problem that the pod's status reports."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return _described(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""), pod)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for container in parts(status, kind):
            waiting = part(part(container, "state"), "waiting")
            reason = waiting.get("reason", "")
            if reason and reason not in ("PodInitializing", "ContainerCreating"):
                name, cause = container["name"], waiting.get("message") or reason
                message = f"container {name}: {cause}{_last_termination(container)}"
                return _described(reason, message, pod, name)
    return None


def _sidecar_problem(
    name: str, namespace: str, status: Mapping[str, Any], ready: Mapping[str, Any], now: float
) -> WorkerProblem | None:
    """That the sidecar alone is not ready, for longer than a start takes."""
    containers = (*parts(status, "initContainerStatuses"), *parts(status, "containerStatuses"))
    starts = (part(part(container, "state"), "running").get("startedAt") for container in containers)
    since = max(parse_time(instant) or 0.0 for instant in (ready.get("lastTransitionTime"), *starts))
    if not waits_for_sidecar(status) or now - since <= START_SECONDS:
        return None
    fix = f"see `{_sidecar_log(name, namespace)}`"
    return WorkerProblem(APP_NOT_READY, SIDECAR_WAITS, f"pod {name}", fix)


def _described(reason: str, message: str, pod: str, container: str = "") -> WorkerProblem:
    return WorkerProblem(reason, message, f"pod {pod}", advice(reason, message, pod, container))


def _last_termination(container: Mapping[str, Any]) -> str:
    """How the container's previous run ended, if there was one; the waiting state does not include the cause."""
    ended = part(part(container, "lastState"), "terminated")
    if not ended:
        return ""
    # The message of a sidecar is the name of its worker.
    message = "" if container["name"] == SIDECAR_CONTAINER else ended.get("message")
    words = [word for word in (ending_reason(ended), message) if word and word != "Error"]
    details = f" ({': '.join(words)[:300]})" if words else ""
    return f"; its previous run ended with exit code {ended.get('exitCode', 0)}{details}"


def ending_reason(terminated: Mapping[str, Any]) -> str:
    """The kubelet's reason why a container ended; empty without one.

    With cgroups v1 the kubelet reports OOMKilled after any process of the container was killed for its memory. The
    first process may have ended later, by itself, with another exit code (seen on 1.34.4 and 1.37.2).
    """
    reason, code = terminated.get("reason") or "", terminated.get("exitCode")
    if reason == "OOMKilled" and code not in (None, _SIGKILLED):
        return "a child process was killed for its memory earlier"
    return reason


def finished_at(terminated: Mapping[str, Any]) -> float | None:
    """When a container terminated: whole Unix seconds by its node's clock."""
    return parse_time(terminated.get("finishedAt"))
