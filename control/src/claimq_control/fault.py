"""A fault: why a step failed for a queue, as its conditions report it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.errors import ClaimqError, ReadTooLarge, ScriptsRefused, StoreFull, StoreMisused

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


def described(error: ClaimqError | TimeoutError) -> Fault:
    """The fault of an error of a queue's server."""
    if isinstance(error, ScriptsRefused):
        return Fault("ScriptsRefused", str(error), needs_action=True)
    if isinstance(error, ReadTooLarge):
        return Fault("ReadTooLarge", str(error), needs_action=True)
    if isinstance(error, StoreMisused):
        return Fault("Misused", str(error), needs_action=True)
    if isinstance(error, StoreFull):
        return Fault("Full", str(error), needs_action=True)
    return Fault("Unreachable", str(error))
