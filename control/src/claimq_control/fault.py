"""A fault: why a step failed for a queue, as its conditions report it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

OWNED_BY_ANOTHER = "OwnedByAnother"
"""The reason of a fault: another object owns the queue on the server."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A reason for programs, a message with the fix, and whether retrying may help."""

    reason: str
    message: str
    needs_action: bool = False
    denied: bool = False
    """Whether the manifest asks for something that is not allowed. The children are not applied then."""
