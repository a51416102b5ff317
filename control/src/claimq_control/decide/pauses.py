"""The words for the pauses of a queue and of its clients. Pure."""

from __future__ import annotations

import shlex

from claimq.limits import Pause
from claimq.model import Snapshot
from claimq.waiting.texts import pause_text

PAUSED = "PausedByHand"
"""The reason of conditions."""
CLOSED = "ClosedByApp"


def pause_note(snapshot: Snapshot, resume: str) -> str:
    """Who paused the queue or a client, when, why and until when, with the command that ends the pause. Empty if
    nothing is paused by hand."""
    if not snapshot.pauses:
        return ""
    pause = snapshot.pause or max(snapshot.pauses, key=lambda pause: pause.items)
    others = len(snapshot.pauses) - 1
    more = f" ({others:,} more paused)" if others else ""
    return f"{pause_text(pause)}; to end it now: {resume}{resume_options(pause)}{more}"


def resume_options(pause: Pause) -> str:
    """The options of the command that ends this pause."""
    return (
        f" --key {shlex.quote(pause.key)}"
        if pause.key
        else f" --client {pause.client}"
        if pause.client
        else ""
    )
