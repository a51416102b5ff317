"""Condition WorkersAvailable: whether the desired workers are ready. Pure."""

from __future__ import annotations

from dataclasses import replace

from claimq_control.decide.conditions.condition import FALSE, TRUE, Condition, View
from claimq_control.worker_counts import ready_text
from claimq_control.workers import WorkerProblem, WorkersState

TYPE = "WorkersAvailable"
STARTING = "Starting"
ROLLOUT_BLOCKED = "RolloutBlocked"
APP_NOT_READY = "AppNotReady"
"""The app does not accept the items that are sent to it."""
_MAX_PROBLEM = 600


def workers_available(view: View) -> Condition:
    """False while workers are desired and none is ready, with the cause. True with ``RolloutBlocked`` while workers of
    the previous template are ready and none of the newest one can be created or started."""
    condition = _without_left_out(view.observed.workers, view.desired)
    return replace(condition, message="; ".join((condition.message, *view.observed.workers.left_out)))


def _without_left_out(workers: WorkersState, desired: int) -> Condition:
    ready, counts = workers.ready, ready_text(workers.ready, desired)
    problem = next((worker.problem for worker in workers.live if worker.problem), workers.problem)
    if desired == 0:
        return Condition(TYPE, TRUE, "NoneWanted", "no workers are needed")
    if ready > 0 and (blocked := workers.blocked) is not None:
        cause = f"{blocked.reason}: {_text(blocked)}"
        return Condition(TYPE, TRUE, ROLLOUT_BLOCKED, f"{counts}, but the rollout is stuck: {cause}")
    if ready >= desired:
        return Condition(TYPE, TRUE, "AllReady", counts)
    if ready > 0:
        cause = f"; {problem.reason}: {_text(problem)}" if problem else ""
        return Condition(TYPE, TRUE, "SomeReady", f"{counts}{cause}")
    hint = next((worker.hint for worker in workers.live), "")
    if problem is None:
        return Condition(TYPE, FALSE, STARTING, f"{counts}, starting{hint}")
    message = f"{counts}: {_text(problem)}{'' if problem.worker else hint}"
    return Condition(TYPE, FALSE, _reason(problem.reason), message)


def _text(problem: WorkerProblem) -> str:
    """The problem and its fix. A long message is cut at the start: its causes are at the end."""
    text = (
        problem.message if len(problem.message) <= _MAX_PROBLEM else f"...{problem.message[-_MAX_PROBLEM:]}"
    )
    where = f"{problem.worker}: " if problem.worker else ""
    return "; ".join(filter(None, (f"{where}{text}", problem.fix)))


def _reason(text: str) -> str:
    """``text`` as a condition reason that the API accepts: letters only, the first one upper-case."""
    letters = "".join(character for character in text if character.isalpha())
    return letters[:1].upper() + letters[1:] or "NotReady"
