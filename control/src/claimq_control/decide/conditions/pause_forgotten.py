"""Condition PauseForgotten: whether a pause of the queue or a client without an end is a day old. Pure."""

from __future__ import annotations

import math

from claimq.waiting.texts import paused_text
from claimq_control.decide.conditions.condition import TRUE, Condition, View
from claimq_control.decide.pauses import PAUSED, resume_options

TYPE = "PauseForgotten"
_AFTER_SECONDS = 86_400.0


def pause_forgotten(view: View) -> Condition | None:
    """True after a day; None, so that the status has no such condition, while no such pause is that old."""
    snapshot = view.observed.snapshot
    pauses = () if snapshot is None else snapshot.pauses
    for pause in sorted(pauses, key=lambda pause: pause.at or math.inf):
        if snapshot and pause.until is None and snapshot.now - (pause.at or math.inf) >= _AFTER_SECONDS:
            commands = [
                view.observed.workers.command(verb) + resume_options(pause) for verb in ("resume", "pause")
            ]
            message = f"{paused_text(pause)}; use `{commands[0]}`, or `{commands[1]} --for 8h`"
            return Condition(TYPE, TRUE, PAUSED, message)
    return None
