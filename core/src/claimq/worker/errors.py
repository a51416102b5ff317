"""Errors between an app and its sidecar, named by what the app does next.

:class:`claimq.errors.StoreUnavailable` and :class:`claimq.errors.PayloadError` are the library's.
"""

from __future__ import annotations

from claimq.errors import ClaimqError


class SidecarUnavailable(ClaimqError):
    """No sidecar answers on the socket. The message names the path that was tried and what to set.

    It is unknown whether the last call took effect. The app keeps its claims until their leases run out.
    """


class Refused(ClaimqError):
    """The sidecar refuses the request and would refuse it again: the request has to change. ``errors``: (pointer,
    detail) for each field.
    """

    def __init__(self, status: int, kind: str, detail: str, errors: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(f"{detail} ({status} {kind})")
        self.status = status
        self.kind = kind
        self.detail = detail
        self.errors = errors


class ItemNotSettled(ClaimqError):
    """A loop over ``items()`` asked for the next item while the last one had no verdict. The program has to change;
    the message says how.
    """
