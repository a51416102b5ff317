"""What a condition is decided from, and what comes out. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from claimq_operator.decide.observed import Observed
from claimq_spec.scaling import Decision

TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"
_LONGEST = 1024


@dataclass(frozen=True, slots=True)
class View:
    """One pass as the conditions see it. ``decision`` is None when none was made; ``wanted`` is the number of workers
    that there should be; ``left_out`` tells what was not injected into the app's container, and why."""

    observed: Observed
    decision: Decision | None
    wanted: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One condition: ``reason`` is a CamelCase word, ``message`` a sentence that says what to do."""

    type: str
    status: str
    reason: str
    message: str

    def short(self) -> Finding:
        """With a message that a status can hold."""
        cut = self.message if len(self.message) <= _LONGEST else self.message[: _LONGEST - 3] + "..."
        return Finding(self.type, self.status, self.reason, cut)
