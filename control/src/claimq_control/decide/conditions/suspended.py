"""Condition Suspended: whether claims are stopped by spec.suspend, `claimq pause` or an app. Pure."""

from __future__ import annotations

from claimq.limits import Pause
from claimq.waiting.texts import pause_text
from claimq_control.decide.conditions.condition import FALSE, NOT_OBSERVED, TRUE, UNKNOWN, Condition, View
from claimq_control.decide.pauses import CLOSED, PAUSED

TYPE = "Suspended"


def suspended(view: View) -> Condition:
    """True while no item can be claimed. Unknown while the server cannot be used, unless ``spec.suspend`` is set."""
    spec, snapshot = view.observed.resource.spec, view.observed.snapshot
    if spec is not None and spec.suspend:
        count = len(view.observed.workers.workers)
        terminating = f" ({count} still terminating)" if count else ""
        return Condition(
            TYPE, TRUE, "SpecSuspend", f"spec.suspend is true: no claims, no workers{terminating}"
        )
    if snapshot is None:
        message = "the queue could not be observed, so it may be paused by hand; see RedisReachable"
        return Condition(TYPE, UNKNOWN, NOT_OBSERVED, message)
    if snapshot.paused:
        resume = view.observed.workers.command("resume")
        message = f"the queue is {pause_text(snapshot.pause or Pause())}; resume it with `{resume}`"
        is_closed = snapshot.pause is not None and snapshot.pause.by_app
        return Condition(TYPE, TRUE, CLOSED if is_closed else PAUSED, message)
    return Condition(TYPE, FALSE, "NotSuspended", "items can be claimed")
