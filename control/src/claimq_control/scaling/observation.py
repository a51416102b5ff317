"""Builds the input of the scaling rule, in one place for the operator, the local mode and the simulator."""

from __future__ import annotations

from claimq.model import Snapshot, State
from claimq_control.scaling.values import Observation


def observe(
    snapshot: Snapshot, *, replicas: int, ready: int, busy: int, slots: int, starting_for: tuple[float, ...]
) -> Observation:
    """The input of :func:`claimq_control.scaling.decide`. Workers that are stopping are left out.

    ``replicas``: workers ordered now: ready, starting, or not there yet. ``ready``: those that can claim.
    ``busy``: those that hold a claim. ``slots``: items that one worker works on at the same time.
    ``starting_for``: for each that is starting, seconds since it was ordered.

    Pods can outnumber the replicas for a moment, and a clock can step back: ``ready`` and ``busy`` are at most
    ``replicas``, and no time is negative. Delayed items that are due count as one: the reaper moves them to main within
    a second. Items of paused clients do not count.
    """
    main = snapshot.lengths[State.MAIN] if snapshot.paused else snapshot.claimable
    return Observation(
        main=main,
        busy=snapshot.lengths[State.BUSY],
        replicas=replicas,
        ready=min(ready, replicas),
        busy_workers=min(busy, replicas),
        delayed_due=1 if snapshot.next_due_in == 0 else 0,
        delayed_soon=snapshot.due_soon,
        oldest_age=snapshot.ages[State.MAIN] if main else None,
        claimed=snapshot.counters["claimed"],
        slots=slots,
        starting_for=tuple(max(0.0, seconds) for seconds in starting_for),
        next_due_in=snapshot.next_due_in,
        is_paused=snapshot.paused,
        limits=snapshot.limits,
        held=snapshot.key_busy,
    )
