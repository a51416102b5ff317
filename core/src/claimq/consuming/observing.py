"""What ``consume`` reports to an observer, such as the metrics of a program."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from claimq.errors import ClaimqError
from claimq.model import Claim, Outcome

Cause = Literal["stopped", "not_reached", "interrupted", "refused", "unanswered"]
"""Why a claim ended without a verdict: the run ended before its handler began; it had waited too long for a handler;
its handler was interrupted; the server refused the verdict; the server did not answer before the run ended, so the
lease decides."""
Event = Literal["claimed", "settled", "given_back", "call_failed"]
"""A method of the observer."""

_log = logging.getLogger("claimq.consuming")


@runtime_checkable
class ConsumeObserver(Protocol):
    """What :meth:`claimq.ReliableQueue.consume` calls; :class:`claimq.metrics.ConsumerMetrics` is one.

    Each claim that is reported to ``claimed`` is reported once more, to ``settled`` or to ``given_back``. The calls
    come from the thread of the event loop, after what they report has happened: an observer that takes long delays the
    next claims and verdicts. If one raises, the exception is logged, once for a run, and has no other effect.
    """

    def claimed(self, queue: str, claims: Sequence[Claim], /) -> None:
        """The queue's claims were made. Handlers may begin with some of them later."""
        ...

    def settled(self, queue: str, outcomes: Sequence[Outcome], /) -> None:
        """Verdicts of handlers were stored, or the claims were found lost."""
        ...

    def given_back(self, queue: str, claims: Sequence[Claim], cause: Cause, /) -> None:
        """Claims ended without a verdict. Unless the server is away, they are about to go back."""
        ...

    def call_failed(self, queue: str, error: ClaimqError, /) -> None:
        """A claim, a verdict, a renewal or a give-back failed, after the retries of the library."""
        ...


class Reports:
    """Reports of one run to its observer, if it has one, whose errors end here."""

    def __init__(self, observer: object, queue: str) -> None:
        """``observer``: a :class:`ConsumeObserver` or None. Raises TypeError for anything else."""
        if isinstance(observer, type) or not isinstance(observer, ConsumeObserver | None):
            raise TypeError(f"observer is {observer!r}; give a claimq.metrics.ConsumerMetrics() or its like")
        self._observer = observer
        self._queue = queue
        self._has_failed = False

    def report(self, event: Event, *reported: Any) -> None:
        """Calls the method of this name with what it reports, except the queue."""
        if self._observer is None:
            return
        try:
            getattr(self._observer, event)(self._queue, *reported)
        except Exception:  # noqa: BLE001 - verdicts do not depend on an observer
            if not self._has_failed:
                self._has_failed = True
                _log.exception("the observer of %s failed; its figures may be wrong from now on", self._queue)
