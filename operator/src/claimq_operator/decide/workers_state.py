"""Reads the state of a queue's workers from the Deployment and its pods. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from claimq_control.fault import Fault
from claimq_control.workers import WorkerProblem, WorkersState, WorkerState
from claimq_kubernetes.advice import advice
from claimq_kubernetes.labels import FIELD_MANAGER, NAMESPACE_LEASE, SCALE_MANAGER, child_name
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.decide.objects import Objects

PAUSED = "DeploymentPaused"
_FIRST_APPLY = "before-first-apply"
"""The owner that the API server enters for fields without one."""
_LEAST_REPLACED = 4
"""From this number of workers on, a rollout removes old workers before new ones are ready."""


def workers_state(
    objects: Objects,
    pods: tuple[WorkerState, ...],
    *,
    refusal: Fault | None = None,
    standing_by: tuple[str, ...] = (),
) -> WorkersState:
    """The state of the workers. ``refusal``: why the API server rejected the children in the previous pass.
    ``standing_by``: other releases of the operator that serve the namespace."""
    resource, deployment = objects.resource, objects.deployment
    name, namespace = child_name(resource.name), resource.namespace
    live = tuple(pod for pod in pods if not pod.is_terminating)
    has_old = _has_old_pods(deployment)
    problem = _problem(deployment, has_work=has_old or not live)
    blocked = _problem_of_newest(live) or (problem if has_old else None)
    replicas = None if deployment is None else int(deployment["spec"].get("replicas", 1))
    command = f"kubectl scale deployment {name} --namespace={namespace} --replicas=1"
    return WorkersState(
        ordered=replicas,
        workers=pods,
        is_rolling_out=deployment is not None and _is_rolling_out(deployment, live),
        problem=problem,
        blocked=None if blocked is None else _with_room(resource, blocked, replicas or 0),
        rivals=tuple(sorted(replicas_owners(deployment) - {FIELD_MANAGER, SCALE_MANAGER, _FIRST_APPLY})),
        place=f"the Deployment {name}",
        first_worker="; there are no workers, and an HPA does not scale up from zero: start the first one with "
        f"`{command}`",
        queue=resource.name,
        program=f"claimq -n {namespace}",
        left_out=objects.left_out,
        refusal=objects.refusal or refusal,
        conflict=_conflict(namespace, standing_by),
    )


def replicas_owners(deployment: Json | None) -> set[str]:
    """The field managers that own the Deployment's number of replicas."""
    entries = [] if deployment is None else parts(deployment["metadata"], "managedFields")
    return {
        str(entry.get("manager"))
        for entry in entries
        if "f:replicas" in part(part(entry, "fieldsV1"), "f:spec")
    }


def replicas_to_hold(deployment: Json | None) -> int | None:
    """The number of replicas to apply as the scale manager, if only the manager of the other fields owns it.

    That is so after the Deployment was created. Without this, the next apply, which leaves ``replicas`` out, would
    reset it to 1.
    """
    if deployment is None or replicas_owners(deployment) != {FIELD_MANAGER}:
        return None
    return int(deployment["spec"].get("replicas", 1))


def _is_paused(deployment: Json | None) -> bool:
    """Whether `kubectl rollout pause` keeps the Deployment from replacing pods."""
    return bool(part(deployment, "spec").get("paused"))


def _has_old_pods(deployment: Json | None) -> bool:
    """Whether the Deployment's own status reports pods that do not have the newest template."""
    return deployment is not None and not _is_behind(deployment) and _counts_old(deployment)


def _is_behind(deployment: Mapping[str, Any]) -> bool:
    """Whether the Deployment controller has not observed the newest template yet."""
    observed_generation = part(deployment, "status").get("observedGeneration", 0)
    return bool(observed_generation < deployment["metadata"].get("generation", 0))


def _counts_old(deployment: Mapping[str, Any]) -> bool:
    status = part(deployment, "status")
    return int(status.get("updatedReplicas", 0)) < int(status.get("replicas", 0))


def _is_rolling_out(deployment: Json, live: tuple[WorkerState, ...]) -> bool:
    """Whether there are pods of an older template, or the controller has not observed the newest template yet."""
    has_two_templates = len({pod.revision for pod in live}) > 1
    if _is_paused(deployment):
        # It lasts until a user ends it, and the controller never gives it up.
        return has_two_templates
    conditions = parts(part(deployment, "status"), "conditions")
    if any(condition.get("reason") == "ProgressDeadlineExceeded" for condition in conditions):
        # The Deployment controller gave up. A template that never becomes ready must not block scaling.
        return False
    return has_two_templates if _is_behind(deployment) else _counts_old(deployment)


def _problem(deployment: Json | None, *, has_work: bool) -> WorkerProblem | None:
    """The problem that the Deployment reports. ``has_work``: whether it has pods to create or to replace."""
    if deployment is not None and _is_paused(deployment) and has_work:
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        command = f"kubectl rollout resume deployment {name} --namespace={namespace}"
        return WorkerProblem(PAUSED, f"the Deployment is paused; resume it with `{command}`")
    for condition in parts(part(deployment, "status"), "conditions"):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            reason = condition.get("reason", "PodsRefused")
            message = condition.get("message", "pods could not be created")
            return WorkerProblem(reason, message, fix=advice(reason, message))
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            message = condition.get("message", "the workers did not become ready in time")
            return WorkerProblem("ProgressDeadlineExceeded", message)
    return None


def _problem_of_newest(live: tuple[WorkerState, ...]) -> WorkerProblem | None:
    """The first problem of a pod of the newest template, while there are pods of several templates."""
    if len({pod.revision for pod in live}) < 2:
        return None
    newest = max(live, key=lambda pod: pod.created_at).revision
    return next((pod.problem for pod in live if pod.revision == newest and pod.problem), None)


def _with_room(resource: QueueResource, problem: WorkerProblem, replicas: int) -> WorkerProblem:
    """The problem of a rollout, with the fix if a new pod needs what the old ones use: quota, a volume, a port of the
    node."""
    spec = resource.spec
    if spec is None or spec.worker.max_unavailable is not None or replicas >= _LEAST_REPLACED:
        return problem
    if problem.reason not in ("FailedCreate", "Unschedulable", "ProgressDeadlineExceeded"):
        return problem
    room = "or set spec.worker.maxUnavailable: 1, so that a new worker can take the place of an old one"
    return replace(problem, fix="; ".join(filter(None, (problem.fix, room))))


def _conflict(namespace: str, standing_by: tuple[str, ...]) -> str:
    if not standing_by:
        return ""
    where = f"--namespace={namespace} --type=merge"
    change = f'{{"spec":{{"holderIdentity":"{standing_by[0]}"}}}}'
    return (
        f"the release {', '.join(standing_by)} of the operator also serves the namespace {namespace} and stands "
        "by; let only one of them serve it (operator.namespaces in the chart), or hand over with "
        f"`kubectl patch lease {NAMESPACE_LEASE} {where} --patch='{change}'`"
    )
