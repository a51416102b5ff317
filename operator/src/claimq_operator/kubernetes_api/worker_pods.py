"""Worker pods as the API describes them, and which workers' names are whose. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from claimq.model import WorkerInfo
from claimq_operator.kubernetes_api.labels import (
    APP_CONTAINER,
    DELETION_COST,
    QUEUE,
    SIDECAR_CONTAINER,
    SOCKET_VOLUME,
    worker_prefix,
)
from claimq_operator.kubernetes_api.port import Json, part, parts
from claimq_operator.kubernetes_api.queue_resource import Key
from claimq_operator.kubernetes_api.timestamps import parse_time


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a pod does not get on, as the kubelet or the scheduler says it."""

    reason: str
    message: str
    pod: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """One worker pod as it is now. ``revision``: the template that it was made from."""

    name: str
    uid: str
    node: str = ""
    is_ready: bool = False
    is_ending: bool = False
    """It was told to end: it is no capacity any more."""
    revision: str = ""
    created_at: str = ""
    """As the API writes instants, which can be compared as text."""
    deletion_cost: int = 0
    trouble: Trouble | None = None
    busy: int = 0
    """Claims that it holds."""

    @property
    def prefix(self) -> str:
        """What the names of its workers begin with."""
        return worker_prefix(self.name, self.uid)


def queue_of(body: Mapping[str, Any]) -> Key | None:
    """The queue that a child or a pod belongs to, by its label."""
    metadata = body["metadata"]
    name = part(metadata, "labels").get(QUEUE)
    return (metadata["namespace"], name) if name else None


def trimmed(pod: Mapping[str, Any]) -> Json:
    """What is kept in memory of a pod: a cluster may have thousands."""
    metadata, spec = pod["metadata"], part(pod, "spec")
    kept = ("name", "namespace", "uid", "resourceVersion", "labels", "annotations")
    instants = ("creationTimestamp", "deletionTimestamp")
    containers = [
        {"name": one["name"], "image": one.get("image", ""), "volumeMounts": _socket_mounts(one)}
        for kind in ("containers", "initContainers")
        for one in parts(spec, kind)
    ]
    return {
        "metadata": {key: metadata[key] for key in (*kept, *instants) if key in metadata},
        "spec": {"nodeName": spec.get("nodeName", ""), "containers": containers},
        "status": part(pod, "status"),
    }


def _socket_mounts(container: Mapping[str, Any]) -> list[Json]:
    return [
        {"name": SOCKET_VOLUME}
        for one in parts(container, "volumeMounts")
        if one.get("name") == SOCKET_VOLUME
    ]


def claiming_containers(pod: Mapping[str, Any]) -> frozenset[str]:
    """The containers that can claim through the pod's sidecar: the app, and others to which its socket is mounted."""
    containers = parts(part(pod, "spec"), "containers")
    others = {one["name"] for one in containers if _socket_mounts(one)} - {SIDECAR_CONTAINER}
    return frozenset(others | {APP_CONTAINER})


def has_ended(pod: Mapping[str, Any]) -> bool:
    """Whether all its containers have ended for good; such an object may stay for long, as evicted pods' do."""
    return part(pod, "status").get("phase") in ("Failed", "Succeeded")


def read_pods(
    bodies: Iterable[Mapping[str, Any]], workers: Iterable[WorkerInfo] = ()
) -> tuple[WorkerPod, ...]:
    """The pods that have not ended, with what each of them holds, in the order of their names."""
    held: dict[str, int] = {}
    for info in workers:
        prefix = info.worker.rpartition(".")[0] + "."
        held[prefix] = held.get(prefix, 0) + info.busy
    return tuple(
        sorted((_read(body, held) for body in bodies if not has_ended(body)), key=lambda pod: pod.name)
    )


def _read(body: Mapping[str, Any], held: Mapping[str, int]) -> WorkerPod:
    metadata, status = body["metadata"], part(body, "status")
    conditions = {one["type"]: one for one in parts(status, "conditions")}
    name, uid = metadata["name"], metadata["uid"]
    return WorkerPod(
        name=name,
        uid=uid,
        node=part(body, "spec").get("nodeName", ""),
        is_ready=conditions.get("Ready", {}).get("status") == "True",
        is_ending="deletionTimestamp" in metadata,
        revision=part(metadata, "labels").get("pod-template-hash", ""),
        created_at=metadata.get("creationTimestamp", ""),
        deletion_cost=_cost(part(metadata, "annotations").get(DELETION_COST, "0")),
        trouble=_trouble(name, status, conditions),
        busy=held.get(worker_prefix(name, uid), 0),
    )


def _cost(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _trouble(
    pod: str, status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]
) -> Trouble | None:
    """The first thing that keeps the pod from working, if anything says so."""
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False":
        return Trouble(scheduled.get("reason", "Unschedulable"), scheduled.get("message", ""), pod)
    for kind in ("initContainerStatuses", "containerStatuses"):
        for one in parts(status, kind):
            waiting = part(part(one, "state"), "waiting")
            reason = waiting.get("reason", "")
            if reason and reason not in ("PodInitializing", "ContainerCreating"):
                said = f"container {one['name']}: {waiting.get('message') or reason}{_last_end(one)}"
                return Trouble(reason, said, pod, one["name"])
    return None


def _last_end(container: Mapping[str, Any]) -> str:
    """How the container's last run ended, where there was one: what it waits for says only that it waits."""
    ended = part(part(container, "lastState"), "terminated")
    if not ended:
        return ""
    words = [word for word in (ended.get("reason"), ended.get("message")) if word and word != "Error"]
    told = f" ({': '.join(words)[:300]})" if words else ""
    return f"; its last run ended with exit code {ended.get('exitCode', 0)}{told}"


def started_at(worker: str) -> float | None:
    """When the sidecar that claims as ``worker`` started, by its node's clock; None for a name of another form."""
    digits = worker.rpartition(".")[2]
    return int(digits) / 1000 if digits.isascii() and digits.isdigit() and len(digits) <= 15 else None


def finished_at(terminated: Mapping[str, Any]) -> float | None:
    """When a container ended, by its node's clock, in whole seconds."""
    return parse_time(terminated.get("finishedAt"))
