"""Ends claims: repeats verdicts through outages, returns claims without one, and ends with its consumer."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

from claimq.concurrency.notify import Notifier, first_of
from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.errors import ClaimqError, NotReplicated, StoreUnavailable

RETRY_SECONDS: Final = 1.0
"""The pause before a call that found no server is repeated. The library has retried it with backoff."""
T = TypeVar("T")
_log = logging.getLogger("claimq.consuming")


class Settler:
    """Ends the claims of one consumer.

    While the consumer runs, verdicts are repeated until the server answers. After :meth:`end`, the calls that are left
    share one time limit, which each answer of the server starts again; then the leases decide.
    """

    def __init__(
        self,
        in_flight: ClaimsInFlight,
        in_background: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        call_failed: Callable[[ClaimqError], bool] = lambda _: False,
        end_timeout: float = math.inf,
    ) -> None:
        """``call_failed`` gets the error of each call that is to be repeated or is not confirmed. It returns whether no
        later call can succeed. ``end_timeout``: seconds without an answer."""
        self.stop = asyncio.Event()
        """Set when the consumer ends."""
        self.in_progress: set[str] = set()
        """Tokens of claims that have a verdict, until it is stored or given up."""
        self._in_flight = in_flight
        self._in_background = in_background
        self._call_failed = call_failed
        self._end_timeout = end_timeout
        self._deadline: float | None = None
        self._ended = Notifier()
        self._give_backs: set[asyncio.Task[None]] = set()

    # Verdicts.
    def begin(self, tokens: Iterable[str]) -> None:
        """These claims have a verdict now."""
        self.in_progress.update(tokens)
        self._extend_deadline()

    def finish(self, tokens: Iterable[str]) -> None:
        """Their verdicts are stored, or given up."""
        self.in_progress.difference_update(tokens)
        self._ended.notify()

    async def settled(self, tokens: Collection[str] | None = None, within: float | None = None) -> bool:
        """Waits until no verdict on these claims is in progress (None: on any claim), at most ``within`` seconds;
        returns whether none is."""
        waiting = self.in_progress if tokens is None else self.in_progress.intersection(tokens)
        if not waiting:
            return True
        try:
            async with asyncio.timeout(within):
                while not self.in_progress.isdisjoint(waiting):
                    await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def until_answered(
        self, call: Callable[[], Awaitable[T]], *, repeated: type[ClaimqError] = StoreUnavailable
    ) -> T:
        """Makes a call that ends claims, and repeats it after a ``repeated`` error while the consumer runs. Raises
        such an error after its end, and all others. Verdicts that no replica has confirmed are stored: another call
        would find the claims lost."""
        while True:
            try:
                reply = await self._in_time(call)
            except NotReplicated as unconfirmed:
                self._call_failed(unconfirmed)
                reply = cast("T", unconfirmed.result)
            except repeated as error:
                if self._call_failed(error) or self.stop.is_set():
                    raise
                await first_of(RETRY_SECONDS, self.stop)
                continue
            self._extend_deadline()
            return reply

    async def _in_time(self, call: Callable[[], Awaitable[T]]) -> T:
        try:
            if self._deadline is not None and _now() > self._deadline:
                raise TimeoutError
            async with asyncio.timeout_at(self._deadline):
                return await call()
        except TimeoutError as error:
            raise StoreUnavailable("the run has ended, and the server has not answered since") from error

    # Claims without a verdict.
    def give_back(
        self,
        tokens: Sequence[str],
        call: Callable[[list[str]], Awaitable[None]],
        *,
        within: float | None = None,
    ) -> asyncio.Task[None]:
        """Returns claims without a verdict, in the background: ``call`` gets those that are still in flight. Each
        keeps its slot until the call has ended. Verdicts in progress come first, but not after ``within`` seconds."""
        self._extend_deadline()
        task = self._in_background(self._give_back(tokens, call, within))
        self._give_backs.add(task)
        task.add_done_callback(self._give_backs.discard)
        return task

    async def _give_back(
        self, tokens: Sequence[str], call: Callable[[list[str]], Awaitable[None]], within: float | None
    ) -> None:
        if not await self.settled(tokens, within):  # else they would be renewed forever
            retried = self.in_progress.intersection(tokens)
            _log.warning(
                "the verdicts on %d claims are still being retried; their leases decide", len(retried)
            )
            self._in_flight.remove(retried)
        if claims := [token for token in tokens if token in self._in_flight]:
            with self._in_flight.slots.held(len(claims)):
                self._in_flight.remove(claims)
                await call(claims)

    async def given_back(self) -> None:
        """Waits for the claims that are on their way back."""
        if self._give_backs:
            await asyncio.wait(set(self._give_backs))

    # The end.
    def end(self) -> None:
        """The consumer ends."""
        if not self.stop.is_set():
            self.stop.set()
            self._extend_deadline()

    def _extend_deadline(self) -> None:
        """After the end: the server has answered, or a new call is needed."""
        if self.stop.is_set():
            self._deadline = _now() + self._end_timeout


def _now() -> float:
    return asyncio.get_running_loop().time()
