"""Condition WorkersAvailable: whether the desired workers are ready. Pure."""

from __future__ import annotations

from claimq_control.worker_counts import ready_text
from claimq_control.workers import PodProblem
from claimq_kubernetes.port import part, parts
from claimq_operator.decide.conditions.advice import advice
from claimq_operator.decide.conditions.condition import FALSE, TRUE, Condition, View

TYPE = "WorkersAvailable"
STARTING = "Starting"
ROLLOUT_BLOCKED = "RolloutBlocked"
PAUSED = "DeploymentPaused"
_MAX_PROBLEM = 600
_LEAST_REPLACED = 4
"""From this number of workers on, a rollout removes old workers before new ones are ready."""


def workers_available(view: View) -> Condition:
    """False while workers are desired and none is ready, with the cause. True with ``RolloutBlocked`` while workers of
    the previous template are ready and no pod of the newest one can be created or started."""
    found = _without_left_out(view)
    if view.left_out:
        found = Condition(TYPE, found.status, found.reason, "; ".join((found.message, *view.left_out)))
    return found


def _without_left_out(view: View) -> Condition:
    ready, wanted = view.observed.ready, view.wanted
    problem = _problem(view)
    if wanted == 0:
        return Condition(TYPE, TRUE, "NoneWanted", "no workers are needed")
    blocked = _blocked_rollout(view)
    if ready > 0 and blocked is not None:
        cause = f"{blocked.reason}: {_text(blocked)}{_room(view, blocked)}"
        return Condition(
            TYPE,
            TRUE,
            ROLLOUT_BLOCKED,
            f"{ready_text(ready, wanted)}, but the rollout is stuck: {cause}",
        )
    if ready >= wanted:
        return Condition(TYPE, TRUE, "AllReady", ready_text(ready, wanted))
    if ready > 0:
        cause = f"; {problem.reason}: {_text(problem)}" if problem else ""
        return Condition(TYPE, TRUE, "SomeReady", f"{ready_text(ready, wanted)}{cause}")
    if problem is not None:
        look = "" if problem.pod else _where_to_look(view)
        message = f"{ready_text(0, wanted)}: {_text(problem)}{look}"
        return Condition(TYPE, FALSE, _reason(problem.reason), message)
    return Condition(TYPE, FALSE, STARTING, f"{ready_text(0, wanted)}, starting{_where_to_look(view)}")


def _problem(view: View) -> PodProblem | None:
    """The first problem of a pod, or of the Deployment if its pods could not be created."""
    for pod in view.observed.live_pods:
        if pod.problem is not None:
            return pod.problem
    return _deployment_problem(view)


def _deployment_problem(view: View) -> PodProblem | None:
    """The problem that the Deployment reports."""
    deployment = view.observed.deployment
    has_work = view.observed.has_old_pods or not view.observed.live_pods
    if deployment is not None and view.observed.is_paused_rollout and has_work:
        name, namespace = deployment["metadata"]["name"], deployment["metadata"]["namespace"]
        command = f"kubectl rollout resume deployment {name} --namespace={namespace}"
        return PodProblem(PAUSED, f"the Deployment is paused; resume it with `{command}`")
    for one in parts(part(deployment, "status"), "conditions"):
        if one.get("type") == "ReplicaFailure" and one.get("status") == "True":
            return PodProblem(
                one.get("reason", "PodsRefused"), one.get("message", "pods could not be created")
            )
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            message = one.get("message", "the workers did not become ready in time")
            return PodProblem("ProgressDeadlineExceeded", message)
    return None


def _where_to_look(view: View) -> str:
    """The command for a pod that stays pending: its status does not report a volume that cannot be mounted, nor whether
    an init container will end."""
    namespace = view.observed.resource.namespace
    for pod in view.observed.live_pods:
        if pod.init_container:
            command = f"kubectl logs {pod.name} --namespace={namespace} --container={pod.init_container}"
            return (
                f"; pod {pod.name}: the init container {pod.init_container} is running and the app starts after it: "
                f"if this persists, run `{command}`, and correct it in spec.worker.template"
            )
        command = f"kubectl describe pod {pod.name} --namespace={namespace}"
        return (
            f"; if this persists, run `{command}` to see the cause, such as a volume of spec.worker.template"
        )
    return ""


def _blocked_rollout(view: View) -> PodProblem | None:
    """Why the rollout to the newest template makes no progress; None if there is none, or it goes on."""
    observed = view.observed
    revision = observed.newest_revision
    for pod in observed.live_pods:
        if revision is not None and pod.revision == revision and pod.problem is not None:
            return pod.problem
    return _deployment_problem(view) if observed.has_old_pods else None


def _room(view: View, problem: PodProblem) -> str:
    """The fix for a rollout in which a new pod needs what the old ones use: quota, a volume, a port of the node."""
    spec = view.observed.resource.spec
    if spec is None or spec.worker.max_unavailable is not None or view.wanted >= _LEAST_REPLACED:
        return ""
    if problem.reason not in ("FailedCreate", "Unschedulable", "ProgressDeadlineExceeded"):
        return ""
    return "; or set spec.worker.maxUnavailable: 1, so that a new worker can take the place of an old one"


def _text(problem: PodProblem) -> str:
    """The problem and its fix. A long message is cut at the start: its causes are at the end."""
    text = (
        problem.message if len(problem.message) <= _MAX_PROBLEM else f"...{problem.message[-_MAX_PROBLEM:]}"
    )
    where = f"pod {problem.pod}: " if problem.pod else ""
    return "; ".join(filter(None, (f"{where}{text}", advice(problem))))


def _reason(text: str) -> str:
    """``text`` as a condition reason that the API accepts: letters only, the first one upper-case."""
    letters = "".join(character for character in text if character.isalpha())
    return letters[:1].upper() + letters[1:] or "NotReady"
