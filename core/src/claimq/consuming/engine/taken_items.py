"""Items that were taken from the app while it worked on them: cancelled, requeued, or lost in an outage.

``now`` is in seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

TAKEN_SECONDS: Final = 300.0
"""How long the app may work on such an item without a processing timeout, from the moment at which it was taken."""


@dataclass(frozen=True, slots=True)
class _Taken:
    session: str
    overdue_at: float


class TakenItems:
    """Claims of sessions that the server has ended, until the app answers for them or its session ends.

    A claim without a session is not here: nothing shows that its app is still running.
    """

    def __init__(self, processing_timeout: float | None) -> None:
        self._processing_timeout = processing_timeout
        self._by_token: dict[str, _Taken] = {}

    def add(self, token: str, session: str, claimed_at: float, now: float) -> None:
        """The server has reported this claim as lost. The processing timeout continues from the claim."""
        limit = self._processing_timeout
        overdue_at = now + TAKEN_SECONDS if limit is None else claimed_at + limit
        self._by_token[token] = _Taken(session, overdue_at)

    def answered(self, tokens: Iterable[str]) -> None:
        """The app has sent a verdict on these, or reads in a response that they are lost. Other tokens are ignored."""
        if self._by_token:
            for token in tokens:
                self._by_token.pop(token, None)

    def end_session(self, session: str) -> None:
        """The app has ended, or continues with another session."""
        self._by_token = {token: entry for token, entry in self._by_token.items() if entry.session != session}

    def overdue(self, now: float) -> list[str]:
        """The tokens for which the app should have answered by now."""
        return [token for token, entry in self._by_token.items() if entry.overdue_at <= now]
