"""Limits how often tokens are checked: each check is a request to the API server, and clients need no login for it."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from claimq_web.remembered import remember
from claimq_web.users.budget import Budget, Rate
from claimq_web.users.login import TooManyChecks, User

_REMEMBERED_SECONDS = 10.0
_MOST_REMEMBERED = 2000
"""Entries that are kept of each kind: accepted tokens, refused tokens, clients."""
_MOST_AT_ONCE = 16
"""Half of the connections to the API server."""
_PER_PEER, _IN_TOTAL = Rate(5.0, 20), Rate(40.0, 100)
_RESERVE = 8
"""Checks beyond these that tokens may have which were accepted before."""


class TokenChecks:
    """Finds users by tokens. An answer is remembered for 10 seconds, by a hash of the token.

    Unknown tokens are limited for each client address and for all addresses together. A token that was accepted before
    is outside these rates, so unknown tokens of others do not use up its checks. At most 16 checks run at once, and 8
    more of tokens that were accepted before.
    """

    def __init__(
        self,
        authenticate: Callable[[str], Awaitable[User | None]],
        *,
        per_peer: Rate = _PER_PEER,
        in_total: Rate = _IN_TOTAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``authenticate``: the check; None for an unknown token."""
        self._authenticate = authenticate
        self._per_peer = per_peer
        self._clock = clock
        self._in_total = Budget.full(in_total, clock())
        self._peers: OrderedDict[str, Budget] = OrderedDict()
        self._accepted: OrderedDict[str, tuple[float, User]] = OrderedDict()
        self._refused: OrderedDict[str, float] = OrderedDict()
        self._running: dict[str, asyncio.Task[User | None]] = {}

    async def __call__(self, token: str, peer: str) -> User | None:
        """The user with this token. ``peer``: the address of the client. Raises TooManyChecks, and what the check does.

        Requests with one token share a check.
        """
        key, now = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest(), self._clock()
        accepted = self._accepted.get(key)
        if accepted is not None and now < accepted[0]:
            return accepted[1]
        if now < self._refused.get(key, now):
            return None
        check = self._running.get(key)
        if check is None:
            self._admit(peer, now, is_known=accepted is not None)
            check = self._running[key] = asyncio.create_task(self._check(key, token))
            check.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(check)

    def _admit(self, peer: str, now: float, *, is_known: bool) -> None:
        if len(self._running) >= (_MOST_AT_ONCE + _RESERVE if is_known else _MOST_AT_ONCE):
            raise TooManyChecks(1)
        if is_known:
            return
        budgets = (self._budget_of(peer, now), self._in_total)
        wait = max(budget.seconds_to_wait(now) for budget in budgets)
        if wait > 0:
            raise TooManyChecks(math.ceil(wait))
        for budget in budgets:
            budget.left -= 1.0

    def _budget_of(self, peer: str, now: float) -> Budget:
        key = _network_of(peer)
        budget = self._peers.get(key) or Budget.full(self._per_peer, now)
        remember(self._peers, key, budget, _MOST_REMEMBERED)
        return budget

    async def _check(self, key: str, token: str) -> User | None:
        user = await self._authenticate(token)
        until = self._clock() + _REMEMBERED_SECONDS
        self._accepted.pop(key, None)
        self._refused.pop(key, None)
        if user is None:
            remember(self._refused, key, until, _MOST_REMEMBERED)
        else:
            remember(self._accepted, key, (min(until, user.expires_at or until), user), _MOST_REMEMBERED)
        return user

    def _ended(self, key: str, check: asyncio.Task[User | None]) -> None:
        del self._running[key]
        if not check.cancelled():
            check.exception()  # the requests that waited for it may be gone


def _network_of(peer: str) -> str:
    """The peer's address; of IPv6 the first 64 bits, since one machine may have all the others."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    return str(address) if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))
