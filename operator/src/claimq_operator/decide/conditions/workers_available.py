"""WorkersAvailable: whether there are workers where some are wanted."""

from __future__ import annotations

from claimq_operator.decide.conditions.advice import advice
from claimq_operator.decide.conditions.finding import FALSE, TRUE, Finding, View
from claimq_operator.kubernetes_api.port import part, parts
from claimq_operator.kubernetes_api.worker_pods import Trouble

TYPE = "WorkersAvailable"
STARTING = "Starting"
ROLLOUT_BLOCKED = "RolloutBlocked"
_LONGEST = 600


def workers_available(view: View) -> Finding:
    """False while none is ready though some are wanted, with what keeps them from it. True with ``RolloutBlocked`` when
    workers of an older template are ready and those of the newest do not get on."""
    found = _found(view)
    if view.left_out:
        found = Finding(TYPE, found.status, found.reason, "; ".join((found.message, *view.left_out)))
    return found


def _found(view: View) -> Finding:
    observed = view.observed
    ready, wanted = observed.ready, view.wanted
    trouble = _trouble(view)
    if wanted == 0:
        return Finding(TYPE, TRUE, "NoneWanted", "no workers are wanted now")
    if ready > 0 and trouble is not None and _is_of_newest(view, trouble):
        told = f"{ready} of {wanted} workers are ready, but the newest template's do not get on"
        return Finding(TYPE, TRUE, ROLLOUT_BLOCKED, f"{told}: {trouble.reason}: {_told(trouble)}")
    if ready >= wanted:
        return Finding(TYPE, TRUE, "AllReady", f"{ready} of {wanted} workers are ready")
    if ready > 0:
        told = f"; {trouble.reason}: {_told(trouble)}" if trouble else ""
        return Finding(TYPE, TRUE, "SomeReady", f"{ready} of {wanted} workers are ready{told}")
    if trouble is not None:
        said = f"none of {wanted} workers is ready: {_told(trouble)}"
        return Finding(TYPE, FALSE, _word(trouble.reason), said)
    return Finding(TYPE, FALSE, STARTING, f"none of {wanted} workers is ready yet{_waited_for(view)}")


def _trouble(view: View) -> Trouble | None:
    """What a pod complains of, or else the Deployment: pods that could not even be made."""
    for pod in view.observed.live_pods:
        if pod.trouble is not None:
            return pod.trouble
    status = part(view.observed.deployment, "status")
    for one in parts(status, "conditions"):
        if one.get("type") == "ReplicaFailure" and one.get("status") == "True":
            return Trouble(one.get("reason", "PodsRefused"), one.get("message", "pods could not be created"))
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            return Trouble(
                "ProgressDeadlineExceeded", one.get("message", "the workers do not get ready in time")
            )
    return None


def _waited_for(view: View) -> str:
    """Where to look when it takes long: of a volume that cannot be mounted, a pod's status says nothing."""
    for pod in view.observed.live_pods:
        look = f"kubectl describe pod {pod.name} --namespace={view.observed.resource.namespace}"
        return f"; if it stays so, `{look}` says what it waits for, such as a volume of spec.worker.template"
    return ""


def _is_of_newest(view: View, trouble: Trouble) -> bool:
    revision = view.observed.newest_revision
    return any(pod.name == trouble.pod and pod.revision == revision for pod in view.observed.live_pods)


def _told(trouble: Trouble) -> str:
    """What is complained of, and what to do. Of a long complaint, the end: there are the causes."""
    said = trouble.message if len(trouble.message) <= _LONGEST else f"...{trouble.message[-_LONGEST:]}"
    where = f"pod {trouble.pod}: " if trouble.pod else ""
    return "; ".join(filter(None, (f"{where}{said}", advice(trouble))))


def _word(reason: str) -> str:
    """A reason that the API takes: letters only, beginning with a capital."""
    letters = "".join(character for character in reason if character.isalpha())
    return letters[:1].upper() + letters[1:] or "NotReady"
