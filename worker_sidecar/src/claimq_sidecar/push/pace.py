"""Decides how many requests to the app may be in progress. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sent:
    """When a request was sent: how many responses of the app and reductions of the limit there had been before."""

    responses: int
    reductions: int


class Pace:
    """The limit of requests, from what became of earlier ones. The numbers are those of TCP's congestion avoidance.

    An app that refuses a request because it has too many gets half as many at a time as were in progress then, and one
    more after each round of finished ones. An app that ends while it has requests begins with one: it may be one item
    that ends it, and the others in progress would fail with that each time. An app that is silent gets one request at a
    time until it responds.
    """

    def __init__(self, most: int) -> None:
        """``most``: the limit at the beginning, which is never exceeded."""
        self.in_progress = 0
        self.reserved = 0
        """Requests for items that are being claimed."""
        self.is_silent = False
        """Whether a request timed out, and the app has not responded to any since it was sent."""
        self._most = self._limit = most
        self._finished = 0
        """Requests that were done since the limit last changed."""
        self._responses = self._reductions = 0

    @property
    def allowed(self) -> int:
        """How many requests may be in progress."""
        return 1 if self.is_silent else self._limit

    @property
    def free(self) -> int:
        """How many more requests may be sent, or reserved, now."""
        return max(0, self.allowed - self.in_progress - self.reserved)

    def sent(self) -> Sent:
        """To be kept with a request that is sent now."""
        return Sent(self._responses, self._reductions)

    # What became of a request, while it is still counted as in progress.
    def note_response(self, sent: Sent, *, is_done: bool, is_refused: bool) -> None:
        """The app has responded. ``is_refused``: it wants fewer requests. Requests that were sent before the limit was
        reduced change nothing: those that are in progress together are refused together."""
        self._responses += 1
        self.is_silent = False
        if sent.reductions != self._reductions:
            return
        if is_refused:
            self._reduce(min(self._limit, self.in_progress) // 2)
        elif is_done:
            self._finished += 1
            if self._finished >= self._limit:
                self._change(self._limit + 1)

    def note_timeout(self, sent: Sent) -> bool:
        """The app has not responded in time; returns whether it is silent."""
        if sent.responses == self._responses:
            self.is_silent = True
        return self.is_silent

    def note_broken(self, sent: Sent) -> None:
        """The connection broke before the response."""
        if sent.reductions == self._reductions:
            self._reduce(1)

    def _reduce(self, limit: int) -> None:
        self._reductions += 1
        self._change(limit)

    def _change(self, limit: int) -> None:
        self._limit = min(max(limit, 1), self._most)
        self._finished = 0
