"""The words for the pause of a queue. Pure."""

from __future__ import annotations

from claimq.model import Snapshot
from claimq.waiting.texts import pause_text

PAUSED = "PausedByHand"
"""The reason of conditions."""
CLOSED = "ClosedByApp"


def pause_note(snapshot: Snapshot, resume: str) -> str:
    """The same with the command that ends the pause; empty for a queue that is not paused by hand."""
    return "" if snapshot.pause is None else f"{pause_text(snapshot.pause)}; to end it now: {resume}"
