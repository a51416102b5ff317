"""The claims that the app works on. ``now`` is in seconds of a monotonic clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from claimq.model import Claim
from claimq_sidecar.claims.concurrency import Concurrency


@dataclass(slots=True)
class InFlightClaim:
    """A claim in flight. ``lease``: seconds; ``lease_ends``: by our clock, never later than by the server's."""

    token: str
    session: str | None
    claimed_at: float
    lease: float
    lease_ends: float
    overdue: bool = False


class InFlight:
    """Claims that were given to the app and have no verdict yet, in claim order. Each has a concurrency slot."""

    def __init__(self, concurrency: Concurrency, processing_timeout: float | None = None) -> None:
        self._concurrency = concurrency
        self._processing_timeout = processing_timeout
        self._claims: dict[str, InFlightClaim] = {}
        self._by_session: dict[str, dict[str, InFlightClaim]] = {}
        self._windows: dict[str, Concurrency] = {}

    def __len__(self) -> int:
        return len(self._claims)

    def __contains__(self, token: str) -> bool:
        return token in self._claims

    def add(self, claims: Iterable[Claim], session: str | None, requested_at: float) -> None:
        """Adds claims that the app gets now. Their leases count from ``requested_at``, which is never too late."""
        found: list[InFlightClaim] = []
        for claim in claims:
            lease = claim.lease_until - claim.claimed_at
            found.append(InFlightClaim(claim.token, session, requested_at, lease, requested_at + lease))
        self._keep(found, session)

    def limit(self, session: str, window: Concurrency) -> None:
        """Counts the claims of a session in ``window`` too, until :meth:`end_limit`."""
        self._windows[session] = window
        window.take(len(self._by_session.get(session, ())))

    def end_limit(self, session: str) -> None:
        """Ends the count."""
        self._windows.pop(session, None)

    def adopt(self, token: str, session: str | None, now: float, lease: float) -> None:
        """Adds one claim by its token; moves it to ``session`` if it is in flight already."""
        self._keep([InFlightClaim(token, session, now, lease, now + lease)], session)

    def _keep(self, claims: Sequence[InFlightClaim], session: str | None) -> None:
        # First, since removing an earlier claim of the same token frees its slot for another request.
        self._concurrency.take(len(claims))
        by_token = {claim.token: claim for claim in claims}
        if not self._claims.keys().isdisjoint(by_token):
            self.remove(by_token)
        self._claims.update(by_token)
        if session is not None:
            self._by_session.setdefault(session, {}).update(by_token)
            if session in self._windows:
                self._windows[session].take(len(claims))

    def remove(self, tokens: Iterable[str]) -> None:
        """Removes claims and frees their slots. Unknown tokens are ignored."""
        removed = 0
        of_windows: dict[str, int] = {}
        for token in tokens:
            claim = self._claims.pop(token, None)
            if claim is None:
                continue
            removed += 1
            if claim.session is not None:
                claims = self._by_session[claim.session]
                del claims[token]
                if not claims:
                    del self._by_session[claim.session]
                if claim.session in self._windows:
                    of_windows[claim.session] = of_windows.get(claim.session, 0) + 1
        if removed:
            self._concurrency.release(removed)
        for session, count in of_windows.items():
            self._windows[session].release(count)

    def renewed(self, tokens: Iterable[str], now: float, lease: float | None = None) -> None:
        """Restarts the leases of renewed claims at ``now``. ``lease``: their length now, None if it is unknown."""
        for token in tokens:
            if (claim := self._claims.get(token)) is not None:
                claim.lease = lease or claim.lease
                claim.lease_ends = now + claim.lease

    def lost(self, tokens: Iterable[str]) -> None:
        """Removes claims that the server reports as lost. Overdue ones stay: the app is still working on them."""
        self.remove(
            [
                token
                for token in tokens
                if (claim := self._claims.get(token)) is not None and not claim.overdue
            ]
        )

    def of_session(self, session: str) -> list[str]:
        """The tokens of a session's claims, in claim order."""
        return list(self._by_session.get(session, ()))

    def all(self) -> list[str]:
        """All tokens, in claim order."""
        return list(self._claims)

    def to_renew(self, now: float) -> list[str]:
        """The tokens to renew: those of sessions, without overdue claims, which are marked here."""
        limit = self._processing_timeout
        tokens: list[str] = []
        for claims in self._by_session.values():
            for token, claim in claims.items():
                claim.overdue = limit is not None and now - claim.claimed_at >= limit
                if not claim.overdue:
                    tokens.append(token)
        return tokens

    def shortest_lease(self) -> float | None:
        """The shortest lease of the sessions' claims in seconds; None if there are none."""
        return min(
            (claim.lease for claims in self._by_session.values() for claim in claims.values()), default=None
        )

    def expire(self, now: float, is_ending: Callable[[str], bool]) -> list[str]:
        """Removes and returns the claims without a session whose leases have ended: other workers may get them.

        ``is_ending``: whether a verdict on a token is in progress. Such a claim stays, since an item that is claimed in
        the same call takes over its slot.
        """
        expired = [
            token
            for token, claim in self._claims.items()
            if claim.session is None and claim.lease_ends <= now and not is_ending(token)
        ]
        self.remove(expired)
        return expired

    def overdue(self, now: float) -> list[str]:
        """The tokens of claims that have been in flight for longer than the processing timeout."""
        limit = self._processing_timeout
        if limit is None:
            return []
        return [token for token, claim in self._claims.items() if now - claim.claimed_at >= limit]

    def oldest(self, now: float) -> float:
        """The age of the oldest claim in seconds; 0 if there are none."""
        return max((now - claim.claimed_at for claim in self._claims.values()), default=0.0)
