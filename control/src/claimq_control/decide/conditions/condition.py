"""Inputs and outputs of the functions that compute conditions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claimq_control.decide.observed import Observed
from claimq_control.scaling import Decision

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
NOT_OBSERVED = "Unknown"
"""The reason of a condition that depends on the queue, while its server cannot be used."""
_MAX_MESSAGE = 1024


@dataclass(frozen=True, slots=True)
class View:
    """What one pass observed and decided. ``decision`` is None when none was made; ``desired`` is the desired number of
    workers."""

    observed: Observed
    decision: Decision | None
    desired: int
    contested_by: str = ""
    """Another client that sets the number of workers too; empty if there is none."""
    wait: str = ""
    """Why a scale-down waits, as an addition to a message; empty if it does not."""

    def condition_before(self, kind: str) -> Mapping[str, Any]:
        """The condition of this type in the status before the pass; empty if there was none."""
        before: Sequence[Mapping[str, Any]] = self.observed.resource.status.get("conditions") or ()
        none: Mapping[str, Any] = {}
        return next((condition for condition in before if condition.get("type") == kind), none)


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: ``reason`` is a CamelCase word, ``message`` a sentence with the fix."""

    type: str
    status: str
    reason: str
    message: str

    def short(self) -> Condition:
        """The condition with its message cut to what the status accepts."""
        cut = self.message if len(self.message) <= _MAX_MESSAGE else self.message[: _MAX_MESSAGE - 3] + "..."
        return Condition(self.type, self.status, self.reason, cut)
