"""Ready workers beside the number that is wanted, in words. There may be more: during a rollout, and until those that
are not needed have ended. Pure."""

from __future__ import annotations


def ready_text(ready: int, desired: int) -> str:
    """A sentence without its end: ``2 of 3 workers are ready``, or how many more there are than wanted."""
    if ready <= desired:
        return f"{ready:,} of {desired:,} workers are ready"
    workers = "worker is" if ready == 1 else "workers are"
    return f"{ready:,} {workers} ready, {ready - desired:,} more than the {desired:,} wanted"


def ready_summary(ready: int, desired: int) -> str:
    """The same for a column: ``2/3``, or ``3/3 +1`` for one more than wanted."""
    more = f" +{ready - desired}" if ready > desired else ""
    return f"{min(ready, desired)}/{desired}{more}"
