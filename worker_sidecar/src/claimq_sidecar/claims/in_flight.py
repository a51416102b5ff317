"""What the app has in hand, and what became of what it had: pure tables. ``now``: seconds of a monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from claimq.model import Claim


@dataclass(slots=True)
class Held:
    """A claim in the app's hands. ``lease``: seconds; ``lease_ends``: by our clock, a little early rather than late."""

    token: str
    session: str | None
    taken: float
    lease: float
    lease_ends: float
    overdue: bool = False


class InFlight:
    """Claims that were handed out and have no verdict yet, in the order of claiming."""

    def __init__(self, processing_timeout: float | None = None) -> None:
        self._processing_timeout = processing_timeout
        self._held: dict[str, Held] = {}
        self._by_session: dict[str, dict[str, Held]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, token: str) -> bool:
        return token in self._held

    def take(self, claims: Iterable[Claim], session: str | None, asked: float) -> None:
        """Claims were handed to the app. ``asked``: when they were asked for, from which their leases surely run."""
        for claim in claims:
            self.hold(claim.token, session, asked, claim.lease_until - claim.claimed_at)

    def hold(self, token: str, session: str | None, now: float, lease: float) -> None:
        """One claim is in the app's hands from now on."""
        if token in self._held:
            self.let_go([token])
        held = Held(token, session, now, lease, now + lease)
        self._held[token] = held
        if session is not None:
            self._by_session.setdefault(session, {})[token] = held

    def let_go(self, tokens: Iterable[str]) -> None:
        """These are not in the app's hands any more."""
        for token in tokens:
            held = self._held.pop(token, None)
            if held is not None and held.session is not None:
                own = self._by_session[held.session]
                del own[token]
                if not own:
                    del self._by_session[held.session]

    def renewed(self, tokens: Iterable[str], now: float, lease: float | None = None) -> None:
        """Their leases run from ``now`` again; ``lease`` is how long they are now, where that is known."""
        for token in tokens:
            if (held := self._held.get(token)) is not None:
                held.lease = lease or held.lease
                held.lease_ends = now + held.lease

    def lost(self, tokens: Iterable[str]) -> None:
        """The store says that these are not held any more. One that is overdue stays: its app still works on it."""
        self.let_go(
            [token for token in tokens if (held := self._held.get(token)) is not None and not held.overdue]
        )

    def of_session(self, session: str) -> list[str]:
        """A session's claims in the order of claiming."""
        return list(self._by_session.get(session, ()))

    def all(self) -> list[str]:
        """Everything in hand, in the order of claiming."""
        return list(self._held)

    def to_renew(self, now: float) -> list[str]:
        """Claims of sessions whose processing time is not over; notes those where it is."""
        limit = self._processing_timeout
        tokens: list[str] = []
        for own in self._by_session.values():
            for token, held in own.items():
                held.overdue = limit is not None and now - held.taken >= limit
                if not held.overdue:
                    tokens.append(token)
        return tokens

    def shortest_lease(self) -> float | None:
        """The shortest lease among the claims of sessions; None without any."""
        return min((held.lease for own in self._by_session.values() for held in own.values()), default=None)

    def expire(self, now: float) -> list[str]:
        """Lets go of claims without a session whose lease is over: the store gives them to others."""
        over = [
            token for token, held in self._held.items() if held.session is None and held.lease_ends <= now
        ]
        self.let_go(over)
        return over

    def overdue(self, now: float) -> list[str]:
        """Claims that have been in hand for longer than the processing time-out."""
        limit = self._processing_timeout
        if limit is None:
            return []
        return [token for token, held in self._held.items() if now - held.taken >= limit]

    def oldest(self, now: float) -> float:
        """Seconds since the oldest claim in hand was taken; 0 without any."""
        return max((now - held.taken for held in self._held.values()), default=0.0)
