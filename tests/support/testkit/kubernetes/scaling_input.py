"""Input of the scaling rule for tests: only the numbers that matter to a test need to be named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from claimq_control.scaling import Observation

_EMPTY = Observation(
    main=0,
    busy=0,
    replicas=0,
    ready=0,
    busy_workers=0,
    delayed_due=0,
    delayed_soon=0,
    oldest_age=None,
    claimed=None,
    slots=1,
    starting_for=(),
    next_due_in=None,
    is_paused=False,
)


def scaling_input(
    main: int = 0, busy: int = 0, replicas: int = 0, ready: int = 0, **more: Any
) -> Observation:
    """One observation of an empty queue without workers, with these numbers instead."""
    return replace(_EMPTY, main=main, busy=busy, replicas=replicas, ready=ready, **more)
