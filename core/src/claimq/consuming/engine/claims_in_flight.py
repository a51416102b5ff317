"""The claims that the app works on. ``now`` is in seconds of a monotonic clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from claimq.consuming.engine.permits import Permits
from claimq.consuming.engine.slots import Slots
from claimq.consuming.engine.taken_items import TakenItems
from claimq.model import Claim


@dataclass(slots=True, eq=False)
class ClaimGroup:
    """What claims have in common that were delivered, adopted or renewed together.

    ``begun_at``: since when the app may work on them; infinite for claims that it has not begun. ``lease``: seconds;
    ``lease_ends``: by our clock, never later than by the server's. ``ahead``: where they have permits.
    """

    session: str | None
    begun_at: float
    lease: float
    lease_ends: float
    ahead: Permits | None = None
    overdue: bool = False


class ClaimsInFlight:
    """Claims that were given to the app and have no verdict yet, in claim order. Each has a concurrency slot."""

    def __init__(self, slots: Slots, processing_timeout: float | None = None) -> None:
        self.slots = slots
        self._processing_timeout = processing_timeout
        self._groups: dict[str, ClaimGroup] = {}
        """By token, in claim order."""
        self._by_session: dict[str, dict[str, None]] = {}
        self._windows: dict[str, Slots] = {}
        self.taken = TakenItems(processing_timeout)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, token: str) -> bool:
        return token in self._groups

    def add(
        self, claims: Iterable[Claim], session: str | None, requested_at: float, ahead: Permits | None = None
    ) -> None:
        """Adds claims that the app gets now. Their leases count from ``requested_at``, which is never too late.

        ``ahead``: the app begins them later, see :meth:`begin`.
        """
        begun_at = requested_at if ahead is None else math.inf
        groups: dict[float, ClaimGroup] = {}  # one for each call to the server
        by_token: dict[str, ClaimGroup] = {}
        for token, _, _, claimed_at, lease_until in claims:
            lease = lease_until - claimed_at
            if lease not in groups:
                groups[lease] = ClaimGroup(session, begun_at, lease, requested_at + lease, ahead)
            by_token[token] = groups[lease]
        self._keep(by_token, session, len(by_token) if ahead is None else ahead.change(len(by_token)))

    def begin(self, tokens: Iterable[str], now: float) -> None:
        """The app has begun these. Claims that are not in flight any more are ignored."""
        groups: dict[ClaimGroup, ClaimGroup] = {}
        for token in tokens:
            if (old := self._groups.get(token)) is not None:
                if old not in groups:
                    groups[old] = replace(old, begun_at=now)
                self._groups[token] = groups[old]

    def count_of(self, tokens: Iterable[str], ahead: Permits) -> tuple[int, int]:
        """How many of these claims have permits of ``ahead``, and how many are in flight without."""
        groups = [group for token in tokens if (group := self._groups.get(token)) is not None]
        with_permits = sum(group.ahead is ahead for group in groups)
        return with_permits, len(groups) - with_permits

    def limit(self, session: str, window: Slots) -> None:
        """Counts the claims of a session in ``window`` too, until :meth:`end_session`."""
        self._windows[session] = window
        window.take(len(self._by_session.get(session, ())))

    def end_session(self, session: str) -> None:
        """Ends the count of a window, and the waits for answers of this session. Its claims stay."""
        self._windows.pop(session, None)
        self.taken.end_session(session)

    def adopt(self, token: str, session: str | None, now: float, lease: float) -> None:
        """Adds one claim by its token; moves it to ``session`` if it is in flight already."""
        self._keep({token: ClaimGroup(session, now, lease, now + lease)}, session, 1)

    def _keep(self, by_token: Mapping[str, ClaimGroup], session: str | None, slots: int) -> None:
        # First, since removing an earlier claim of the same token frees its slot for another request.
        self.slots.take(slots)
        if not self._groups.keys().isdisjoint(by_token):
            self.remove(by_token)
        self._groups.update(by_token)
        if session is not None:
            self._by_session.setdefault(session, {}).update(dict.fromkeys(by_token))
            if session in self._windows:
                self._windows[session].take(len(by_token))

    def remove(self, tokens: Iterable[str]) -> None:
        """Removes claims and frees their slots. Unknown tokens are ignored."""
        removed: dict[str | None, list[str]] = {}
        kinds: dict[Permits | None, int] = {}
        for token in tokens:
            if (group := self._groups.pop(token, None)) is not None:
                removed.setdefault(group.session, []).append(token)
                kinds[group.ahead] = kinds.get(group.ahead, 0) + 1
        for session, session_tokens in removed.items():
            if session is not None:
                claims = self._by_session[session]
                for token in session_tokens:
                    del claims[token]
                if not claims:
                    del self._by_session[session]
        if removed:
            self.slots.release(
                sum(count if ahead is None else -ahead.change(-count) for ahead, count in kinds.items())
            )
        for session, session_tokens in removed.items():
            if session in self._windows:
                self._windows[session].release(len(session_tokens))

    def renewed(self, tokens: Iterable[str], now: float, lease: float | None = None) -> None:
        """Restarts the leases of renewed claims at ``now``. ``lease``: their length now, None if it is unknown."""
        renewals: dict[ClaimGroup, ClaimGroup] = {}
        for token in tokens:
            if (old := self._groups.get(token)) is not None:
                if old not in renewals:
                    length = lease or old.lease
                    renewals[old] = replace(old, lease=length, lease_ends=now + length)
                self._groups[token] = renewals[old]

    def lost(self, tokens: Iterable[str], now: float) -> int:
        """Removes claims that the server reports as lost. Overdue ones stay: the app is still working on them. For the
        others that have a session and were begun, :attr:`taken` waits for the app. Returns how many it has removed."""
        lost: list[str] = []
        for token in tokens:
            group = self._groups.get(token)
            if group is None or group.overdue:
                continue
            lost.append(token)
            if group.session is not None and group.begun_at < math.inf:
                self.taken.add(token, group.session, group.begun_at, now)
        self.remove(lost)
        return len(lost)

    def of_session(self, session: str) -> list[str]:
        """The tokens of a session's claims that the app has begun, in claim order."""
        tokens = self._by_session.get(session, ())
        return [token for token in tokens if self._groups[token].begun_at < math.inf]

    def all(self) -> list[str]:
        """All tokens, in claim order."""
        return list(self._groups)

    def to_renew(self, now: float) -> list[str]:
        """The tokens to renew: those of sessions, without overdue claims, which are marked here."""
        limit = self._processing_timeout
        tokens: list[str] = []
        for token, group in self._groups.items():
            if group.session is not None:
                group.overdue = limit is not None and now - group.begun_at >= limit
                if not group.overdue:
                    tokens.append(token)
        return tokens

    def shortest_lease(self) -> float | None:
        """The shortest lease of the sessions' claims in seconds; None if there are none."""
        of_sessions = (group.lease for group in self._groups.values() if group.session is not None)
        return min(of_sessions, default=None)

    def expire(self, now: float, is_ending: Callable[[str], bool]) -> list[str]:
        """Removes and returns the claims without a session whose leases have ended: other workers may get them.

        ``is_ending``: whether a verdict on a token is in progress. Such a claim stays, since an item that is claimed in
        the same call takes over its slot.
        """
        expired = [
            token
            for token, group in self._groups.items()
            if group.session is None and group.lease_ends <= now and not is_ending(token)
        ]
        self.remove(expired)
        return expired

    def overdue(self, now: float) -> list[str]:
        """The tokens of items on which the app has worked for too long: in flight for longer than the processing
        timeout, or taken from the app and not answered in time."""
        limit = self._processing_timeout
        overdue = self.taken.overdue(now)
        if limit is None:
            return overdue
        return overdue + [token for token, group in self._groups.items() if now - group.begun_at >= limit]

    def oldest(self, now: float) -> float:
        """How long the app has worked on the oldest claim, in seconds; 0 if there are none."""
        return max(
            (now - group.begun_at for group in self._groups.values() if group.begun_at <= now), default=0.0
        )
