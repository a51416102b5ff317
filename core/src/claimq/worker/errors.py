"""What can go wrong between an app and its sidecar, named by what the app does next."""

from __future__ import annotations


class WorkerError(Exception):
    """The root of everything that :mod:`claimq.worker` raises on purpose."""


class SidecarUnavailable(WorkerError):
    """No sidecar answers on the socket. The message says which path was tried and what to set.

    Whether the last call took effect is not known. What the app has in hand stays its own until the leases
    run out.
    """


class StoreUnavailable(WorkerError):
    """The sidecar answers and its store does not (now). Try again later; nothing in hand is lost by waiting
    within the lease.
    """


class Refused(WorkerError):
    """The sidecar refuses the request, and will again: the request has to change. ``errors``: (pointer,
    detail) for each field.
    """

    def __init__(self, status: int, kind: str, detail: str, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = errors


class PayloadError(WorkerError):
    """The payload is not what the app reads it as (text or JSON)."""


class ItemNotSettled(WorkerError):
    """A loop over ``items()`` asked for the next item while the last one had no verdict. The program has to change;
    the message says how.
    """
