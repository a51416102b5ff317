"""Finds containers of worker pods that have certainly terminated, which claims they held, and why. Pure.

Only a terminated container status with a container id is proof: the kubelet wrote it. A deleted pod object, a node that
does not respond or a status without an id prove nothing: the container may still run, so its leases have to expire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq.codec import kept_error
from claimq.model import Reason
from claimq_control.workers import Termination
from claimq_kubernetes.port import part, parts
from claimq_kubernetes.worker_pods import claiming_containers, ending_reason, finished_at, is_finished
from claimq_process.names import APP_CONTAINER, SIDECAR_CONTAINER, worker_prefix

# Reasons of the condition DisruptionTarget that do not blame the pod or its items.
_INTERRUPTED = (
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "DeletionByDeviceTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
)
_EVICTED = "Evicted"
_REJECTED = "Pod was rejected"
"""The kubelet begins the message of a pod so if it does not admit the pod, also a running one after its own restart."""
_LONGEST_NAME = 200
"""Characters of a container's id and of a worker's name. The operator keeps both, and users who may write the status
of a pod choose them, so longer ones prove nothing."""


def terminations_of(pod: Mapping[str, Any]) -> tuple[Termination, ...]:
    """All certain terminations in a pod's status, including ones that were handled before."""
    status = part(pod, "status")
    terminations: list[Termination] = []
    for kind, name in (("initContainerStatuses", SIDECAR_CONTAINER), ("containerStatuses", APP_CONTAINER)):
        if name == APP_CONTAINER and len(claiming_containers(pod)) > 1:
            continue  # several containers share the sidecar, so it is unknown which of them held a claim
        named = (container for container in parts(status, kind) if container.get("name") == name)
        terminations += [
            termination for container in named if (termination := _termination(pod, container)) is not None
        ]
    if (
        status.get("reason") == _EVICTED
        and is_finished(pod)
        and all(termination.is_sidecar for termination in terminations)
    ):
        terminations += _eviction(pod)
    return tuple(terminations)


def _eviction(pod: Mapping[str, Any]) -> list[Termination]:
    """The eviction as a termination of the app, if its status has no other: the kubelet removed the container before it
    wrote a final state, or several containers can claim. All of them have terminated.

    Its sidecar has returned the claims; the cause is recorded on their items.
    """
    metadata, containers = pod["metadata"], parts(part(pod, "status"), "containerStatuses")
    return [
        Termination(
            container_id=f"eviction of {metadata['uid']}",
            prefix=worker_prefix(metadata["name"], metadata["uid"]),
            is_sidecar=False,
            cause=_cause(pod, container, part(part(container, "lastState"), "terminated")),
            reason=_reason(pod),
        )
        for container in containers
        if container.get("name") == APP_CONTAINER
    ]


def _termination(pod: Mapping[str, Any], container: Mapping[str, Any]) -> Termination | None:
    state = part(container, "state")
    terminated = state.get("terminated") or part(part(container, "lastState"), "terminated")
    container_id, ended = terminated.get("containerID"), finished_at(terminated)
    if not container_id or len(container_id) > _LONGEST_NAME or ended is None:
        return None
    is_sidecar = container["name"] == SIDECAR_CONTAINER
    worker = terminated.get("message", "").strip() if is_sidecar else ""
    metadata = pod["metadata"]
    return Termination(
        container_id=container_id,
        prefix=worker_prefix(metadata["name"], metadata["uid"]),
        is_sidecar=is_sidecar,
        cause=_cause(pod, container, terminated),
        reason=_reason(pod),
        is_last=_is_last(pod, state),
        ended_at=ended,
        worker=worker if len(worker) <= _LONGEST_NAME else "",
    )


def _is_last(pod: Mapping[str, Any], state: Mapping[str, Any]) -> bool:
    """Whether the pod starts no other run, or a back-off of at least ten seconds delays it.

    An app that has just ended may run again, and claim, before the operator acts on this status.
    """
    is_over = is_finished(pod) or "deletionTimestamp" in pod["metadata"]
    return "running" not in state and (is_over or part(state, "waiting").get("reason") == "CrashLoopBackOff")


def _reason(pod: Mapping[str, Any]) -> Reason:
    """INTERRUPTED if the cluster removed the pod; CRASHED if a container failed or exceeded its own limit."""
    status = part(pod, "status")
    message = status.get("message", "")
    if message.startswith(_REJECTED):
        return Reason.INTERRUPTED
    if status.get("reason") == _EVICTED:
        is_external = "node was low on" in message or message.startswith(f"Container {SIDECAR_CONTAINER} ")
        return Reason.INTERRUPTED if is_external else Reason.CRASHED
    is_disrupted = any(
        condition.get("type") == "DisruptionTarget"
        and condition.get("status") == "True"
        and condition.get("reason") in _INTERRUPTED
        for condition in parts(status, "conditions")
    )
    is_interrupted = is_disrupted or "deletionTimestamp" in pod["metadata"]
    return Reason.INTERRUPTED if is_interrupted else Reason.CRASHED


def _cause(pod: Mapping[str, Any], container: Mapping[str, Any], terminated: Mapping[str, Any]) -> str:
    """One line for the item: the container, how it ended, the node, the image, and the number of the run; at most what
    an item keeps."""
    status, name = part(pod, "status"), container["name"]
    how: list[str] = []
    if status.get("reason") == _EVICTED:
        how.append(f"evicted ({status.get('message', '').strip()[:200]})")
    elif status.get("message", "").startswith(_REJECTED):
        how.append(f"rejected by the node ({status['message'].strip()[:200]})")
    if (reason := ending_reason(terminated)) not in ("", "Error", "Completed"):
        how.append(reason)
    if (code := terminated.get("exitCode")) is not None:
        how.append(f"exit code {code}" + (f" (signal {code - 128})" if 128 < code < 160 else ""))
    node = part(pod, "spec").get("nodeName") or "unknown"
    is_next = "running" in part(container, "state") or "waiting" in part(container, "state")
    run = container.get("restartCount", 0) + (0 if is_next else 1)
    image = container.get("image") or "unknown"
    pod_name = pod["metadata"]["name"]
    return kept_error(
        f"{name} ended: {', '.join(how)}; pod {pod_name}, node {node}, image {image}, run {run}"
    )
