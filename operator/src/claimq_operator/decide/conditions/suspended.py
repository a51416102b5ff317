"""Suspended: whether claims are stopped by spec.suspend or by hand."""

from __future__ import annotations

from claimq_operator.decide.conditions.finding import FALSE, TRUE, Finding, View

TYPE = "Suspended"


def suspended(view: View) -> Finding:
    """True while the queue gives no claims."""
    spec, snapshot = view.observed.resource.spec, view.observed.snapshot
    if spec is not None and spec.suspend:
        left = len(view.observed.pods)
        said = f"spec.suspend is true: no claims, no workers{f' ({left} still ending)' if left else ''}"
        return Finding(TYPE, TRUE, "SpecSuspend", said)
    if snapshot is not None and snapshot.paused:
        return Finding(
            TYPE, TRUE, "PausedByHand", "the queue was paused by hand: resume it with `claimq resume`"
        )
    return Finding(TYPE, FALSE, "NotSuspended", "the queue gives claims")
