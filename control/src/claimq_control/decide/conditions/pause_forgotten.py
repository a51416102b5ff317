"""Condition PauseForgotten: whether a pause without an end is a day old. Pure."""

from __future__ import annotations

from claimq.waiting.texts import pause_text
from claimq_control.decide.conditions.condition import TRUE, Condition, View
from claimq_control.decide.pauses import PAUSED

TYPE = "PauseForgotten"
_AFTER_SECONDS = 86_400.0


def pause_forgotten(view: View) -> Condition | None:
    """True after a day; None, so that the status has no such condition, while no such pause is that old."""
    snapshot = view.observed.snapshot
    pause = None if snapshot is None else snapshot.pause
    if snapshot is None or pause is None or pause.at is None or pause.until is not None:
        return None
    if snapshot.now - pause.at < _AFTER_SECONDS:
        return None
    resume, end = (view.observed.workers.command(verb) for verb in ("resume", "pause"))
    message = f"the queue is {pause_text(pause)}; use `{resume}`, or `{end} --for 8h`"
    return Condition(TYPE, TRUE, PAUSED, message)
