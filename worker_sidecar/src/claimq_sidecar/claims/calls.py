"""Calls of the app, as the HTTP layer passes them on."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.consuming.engine.endings import Ending
from claimq.model import Claim, Outcome

LONGEST_WAIT = 300.0
"""Seconds that one claim may wait, also by the queue's policy. The client claims again to wait longer."""


def default_wait(by_policy: float | None) -> float:
    """How long a claim waits by default. ``by_policy``: seconds, or None for no limit."""
    return LONGEST_WAIT if by_policy is None else min(by_policy, LONGEST_WAIT)


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """A claim of up to ``most`` items. ``wait``: seconds; None: as long as the policy says.

    ``ahead``: how many items to claim that the app begins later, by permits, instead of ``most``; on ``most`` of all
    such items it works at the same time.
    """

    most: int = 1
    wait: float | None = None
    session: str | None = None
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class NextAnswer:
    """Outcomes of verdicts, and the claims after them.

    ``first``: the number of the first claim, if they have permits. ``slots``: on so many claims with permits the app
    may work at the same time. ``ahead``: how many of them it may leave unbegun.
    """

    outcomes: list[Outcome]
    claims: list[Claim]
    first: int = 0
    slots: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class VerdictRequest:
    """A done, fail, requeue, later, unclaim or renew. ``tokens``: in the order of the request, without duplicates."""

    tokens: tuple[str, ...]
    endings: tuple[Ending[str], ...]
