"""WorkersAvailable: whether there are workers where some are wanted."""

from __future__ import annotations

from claimq_operator.cluster import part, parts
from claimq_operator.conditions.finding import FALSE, TRUE, Finding, View
from claimq_operator.worker_pods import Trouble

TYPE = "WorkersAvailable"
STARTING = "Starting"


def workers_available(view: View) -> Finding:
    """False while none is ready though some are wanted, with what keeps them from it."""
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
    if ready >= wanted:
        return Finding(TYPE, TRUE, "AllReady", f"{ready} of {wanted} workers are ready")
    if ready > 0:
        told = f"; {trouble.reason}: {trouble.message}" if trouble else ""
        return Finding(TYPE, TRUE, "SomeReady", f"{ready} of {wanted} workers are ready{told}")
    if trouble is not None:
        return Finding(
            TYPE, FALSE, _word(trouble.reason), f"none of {wanted} workers is ready: {trouble.message}"
        )
    return Finding(TYPE, FALSE, STARTING, f"none of {wanted} workers is ready yet")


def _trouble(view: View) -> Trouble | None:
    """What a pod complains of, or else the Deployment: pods that could not even be made."""
    for pod in view.observed.live_pods:
        if pod.trouble is not None:
            return Trouble(pod.trouble.reason, f"pod {pod.name}: {pod.trouble.message}")
    status = part(view.observed.deployment, "status")
    for one in parts(status, "conditions"):
        if one.get("type") == "ReplicaFailure" and one.get("status") == "True":
            return Trouble(one.get("reason", "PodsRefused"), one.get("message", "pods could not be created"))
        if one.get("type") == "Progressing" and one.get("reason") == "ProgressDeadlineExceeded":
            return Trouble(
                "ProgressDeadlineExceeded", one.get("message", "the workers do not get ready in time")
            )
    return None


def _word(reason: str) -> str:
    """A reason that the API takes: letters only, beginning with a capital."""
    letters = "".join(character for character in reason if character.isalpha())
    return letters[:1].upper() + letters[1:] or "NotReady"
