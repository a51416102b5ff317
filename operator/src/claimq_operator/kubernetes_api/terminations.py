"""Which containers of worker pods have ended for certain, whose claims those were, and what to say on the items. Pure.

Proof is a terminated container status with the container's id: the kubelet wrote it. A pod object that is gone, a node
that is silent, a status without an id prove nothing: the container may still run, and then the lease decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from claimq.model import Reason, WorkerInfo
from claimq_operator.kubernetes_api.labels import APP_CONTAINER, SIDECAR_CONTAINER, worker_prefix
from claimq_operator.kubernetes_api.port import part, parts
from claimq_operator.kubernetes_api.timestamps import parse_time
from claimq_operator.kubernetes_api.worker_pods import claiming_containers, finished_at, has_ended, started_at

# What ends a pod through no fault of what it works on (the reasons of the condition DisruptionTarget).
_INTERRUPTED = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
_EVICTED = "Evicted"


@dataclass(frozen=True, slots=True)
class Termination:
    """One container that has ended.

    ``before`` is an instant by its node's clock, in whole seconds. Of a sidecar: workers that started before it are
    dead. Of an app: what was claimed before it was in the hands of the app that ended.
    """

    container_id: str
    prefix: str
    before: float
    is_sidecar: bool
    cause: str
    reason: Reason = Reason.CRASHED


def deaths_of(pod: Mapping[str, Any]) -> tuple[Termination, ...]:
    """All proven deaths that a pod's status tells of, whether they are news or not."""
    status = part(pod, "status")
    found: list[Termination] = []
    for kind, name in (("initContainerStatuses", SIDECAR_CONTAINER), ("containerStatuses", APP_CONTAINER)):
        if name == APP_CONTAINER and len(claiming_containers(pod)) > 1:
            continue  # another container holds claims through the same sidecar: whose they are nobody can tell
        named = (one for one in parts(status, kind) if one.get("name") == name)
        found += [death for one in named if (death := _death(pod, one)) is not None]
    if status.get("reason") == _EVICTED and has_ended(pod) and all(death.is_sidecar for death in found):
        found += _eviction(pod)
    return tuple(found)


def _eviction(pod: Mapping[str, Any]) -> list[Termination]:
    """The eviction itself, where the kubelet had removed the app's container before it wrote how that ended, or where
    several containers claimed: all of them have ended.

    It gives nothing back, since no claim is from before its instant; but what the sidecar gave back is told the cause.
    """
    metadata, containers = pod["metadata"], parts(part(pod, "status"), "containerStatuses")
    return [
        Termination(
            container_id=f"eviction of {metadata['uid']}",
            prefix=worker_prefix(metadata["name"], metadata["uid"]),
            before=0.0,
            is_sidecar=False,
            cause=_cause(pod, one, part(part(one, "lastState"), "terminated")),
            reason=_reason(pod),
        )
        for one in containers
        if one.get("name") == APP_CONTAINER
    ]


def _death(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Termination | None:
    state = part(container, "state")
    terminated = state.get("terminated") or part(part(container, "lastState"), "terminated")
    container_id, ended = terminated.get("containerID"), finished_at(terminated)
    if not container_id or ended is None:
        return None
    is_sidecar = container["name"] == SIDECAR_CONTAINER
    metadata = pod["metadata"]
    return Termination(
        container_id=container_id,
        prefix=worker_prefix(metadata["name"], metadata["uid"]),
        before=_before(state, ended),
        is_sidecar=is_sidecar,
        cause=_cause(pod, container, terminated),
        reason=_reason(pod),
    )


def _before(state: Mapping[str, Any], ended: float) -> float:
    """The next run's start, if there is one; else the end, and its whole second while no next run may begin."""
    running = parse_time(part(state, "running").get("startedAt"))
    if running is not None:
        return running
    return ended + 1.0 if part(state, "waiting").get("reason") == "CrashLoopBackOff" else ended


def _reason(pod: Mapping[str, Any]) -> Reason:
    """A pod that was taken away is an interruption; a container that failed, or used more than it may, a crash."""
    status = part(pod, "status")
    if status.get("reason") == _EVICTED:
        said = status.get("message", "")
        is_anothers = "node was low on" in said or said.startswith(f"Container {SIDECAR_CONTAINER} ")
        return Reason.INTERRUPTED if is_anothers else Reason.CRASHED
    for one in parts(status, "conditions"):
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            return Reason.INTERRUPTED if one.get("reason") in _INTERRUPTED else Reason.CRASHED
    return Reason.INTERRUPTED if "deletionTimestamp" in pod["metadata"] else Reason.CRASHED


def _cause(pod: Mapping[str, Any], container: Mapping[str, Any], terminated: Mapping[str, Any]) -> str:
    """One line for the item: what ended, how, on which node, with which image, for the how-manieth time."""
    status, name = part(pod, "status"), container["name"]
    how: list[str] = []
    if status.get("reason") == _EVICTED:
        how.append(f"evicted ({status.get('message', '').strip()[:200]})")
    if terminated.get("reason") not in (None, "Error", "Completed"):
        how.append(terminated["reason"])
    code = terminated.get("exitCode", 0)
    how.append(f"exit code {code}" + (f" (signal {code - 128})" if 128 < code < 160 else ""))
    node = part(pod, "spec").get("nodeName") or "unknown"
    is_next = "running" in part(container, "state") or "waiting" in part(container, "state")
    run = container.get("restartCount", 0) + (0 if is_next else 1)
    image = container.get("image") or "unknown"
    return f"{name} ended: {', '.join(how)}; pod {pod['metadata']['name']}, node {node}, image {image}, run {run}"


def dead_workers(death: Termination, workers: Iterable[WorkerInfo]) -> tuple[str, ...]:
    """The names of workers that a sidecar's death proves dead and that still hold claims."""
    return tuple(
        info.worker
        for info in workers
        if death.is_sidecar
        and info.busy
        and info.worker.startswith(death.prefix)
        and _is_before(info.worker, death)
    )


def _is_before(worker: str, death: Termination) -> bool:
    started = started_at(worker)
    # Whole seconds against milliseconds: a worker of the same second may be the next one, and is left to its lease.
    return started is not None and started < death.before
