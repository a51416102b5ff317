"""Builds the input of the scaling rule, in one place for the operator, the local mode and the simulator."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.model import Snapshot, State
from claimq_control.scaling.values import Seen


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a queue that stay: those that are stopping are left out."""

    replicas: int
    """Workers ordered now: ready, starting, or not there yet."""
    ready: int
    """Workers that can claim."""
    busy: int
    """Workers that hold at least one claim."""
    slots: int
    """Items that one worker works on at the same time."""
    starting_for: tuple[float, ...]
    """For workers that are starting: seconds since each was ordered."""


def observation(snapshot: Snapshot, workers: Workers) -> Seen:
    """The input of :func:`claimq_control.scaling.decide`.

    Pods can outnumber the replicas for a moment, and a clock can step back: ``ready`` and ``busy`` are at most
    ``replicas``, and no time is negative. Delayed items that are due count as one: the reaper moves them to main within
    a second.
    """
    return Seen(
        main=snapshot.lengths[State.MAIN],
        busy=snapshot.lengths[State.BUSY],
        replicas=workers.replicas,
        ready=min(workers.ready, workers.replicas),
        busy_workers=min(workers.busy, workers.replicas),
        delayed_due=1 if snapshot.next_due_in == 0 else 0,
        delayed_soon=snapshot.due_soon,
        oldest_age=snapshot.ages[State.MAIN],
        claimed=snapshot.counters["claimed"],
        slots=workers.slots,
        starting_for=tuple(max(0.0, seconds) for seconds in workers.starting_for),
        next_due_in=snapshot.next_due_in,
        is_paused=snapshot.paused,
    )
