"""Steps of quick loops from item to item: those that come while requests are in flight share the next one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic

from claimq.errors import ClaimqError
from claimq.model import Outcome
from claimq.worker import wire
from claimq.worker.backends import Backend, Waiter, refuse_if_ending
from claimq.worker.connection import Connections
from claimq.worker.errors import Refused, SidecarUnavailable
from claimq.worker.item import AnyItem
from claimq.worker.stopping import Stopping

_MANY = 32
"""So many loops have two requests in flight, each with about half of their steps. The sidecar needs as long for a
request as for some 20 items in it, so fewer loops are better off with one."""


@dataclass(slots=True, eq=False)
class _Step(Generic[AnyItem]):
    """One loop's step: the claim that ends, and how many items to claim.

    Its caller waits for ``waiter``, and then finds an outcome, an error, or neither: then it sends the next request.
    """

    verb: str
    token: str
    words: dict[str, object]
    chunk: int
    waiter: Waiter | None = None
    outcome: Outcome | None = None
    error: ClaimqError | None = None
    items: list[AnyItem] = field(default_factory=list[AnyItem])
    is_repeated: bool = False
    is_wanted: bool = True

    @property
    def is_settled(self) -> bool:
        """Whether there is an answer for its caller."""
        return self.outcome is not None or self.error is not None


@dataclass(slots=True, eq=False)
class _Request(Generic[AnyItem]):
    """A request in flight: its steps, and what ends it."""

    steps: list[_Step[AnyItem]] = field(default_factory=list[_Step[AnyItem]])
    interrupt: Stopping = field(default_factory=Stopping)
    is_over: bool = False


class Steps(Generic[AnyItem]):
    """Sends one request at a time for all loops of a worker, or two for many; a single loop's step is sent at once.

    The thread or task whose step finds no request in flight sends it. Those that come in between wait, and the first of
    them sends the next request, with the steps of all. Of many loops, half go into one request: while the sidecar works
    for these, the program works for the others.
    """

    def __init__(
        self,
        connections: Connections,
        backend: Backend,
        patience: float,
        received: Callable[[dict[str, Any]], list[AnyItem]],
        note: Callable[[list[Outcome]], object],
        give_back: Callable[[list[AnyItem]], Coroutine[Any, Any, None]],
    ) -> None:
        """``received``: makes items of a reply. ``note``: keeps outcomes with their items. ``give_back``: for items
        whose caller was interrupted.
        """
        self._connections = connections
        self._backend = backend
        self._patience = patience
        self._received = received
        self._note = note
        self._give_back = give_back
        self._line = threading.Lock()
        """Guards the following, and what a caller has received."""
        self._waiting: deque[_Step[AnyItem]] = deque()
        self._leader: _Step[AnyItem] | None = None
        """The step whose caller sends the next request. It does not wait with the others any more."""
        self._in_flight: list[_Request[AnyItem]] = []

    async def step(
        self, verb: str, token: str, words: dict[str, object], chunk: int, session: str | None
    ) -> tuple[Outcome, list[AnyItem]]:
        """Ends a claim and claims up to ``chunk`` items. Raises SidecarUnavailable, StoreUnavailable, Refused."""
        refuse_if_ending()
        step: _Step[AnyItem] = _Step(verb, token, words, chunk)
        try:
            with self._line:
                self._waiting.append(step)
                self._choose_leader()
                if self._leader is not step:
                    step.waiter = self._backend.waiter()
            if step.waiter is not None:
                await step.waiter.wait()
            if not step.is_settled:
                await self._backend.shield(self._send_next(step, session))
        except BaseException:
            await self._abandon(step)
            raise
        if step.outcome is None:
            raise step.error or SidecarUnavailable("the request of this step was interrupted")
        return step.outcome, step.items

    async def _abandon(self, step: _Step[AnyItem]) -> None:
        """Its caller was interrupted. A step that was not sent yet is not sent; what it has claimed goes back."""
        with self._line:
            step.is_wanted = False
            items, step.items = step.items, []
            if step in self._waiting:
                self._waiting.remove(step)
            if step is self._leader:
                self._leader = None
            for request in self._in_flight:
                if step in request.steps and not any(one.is_wanted for one in request.steps):
                    request.interrupt.stop()  # what had arrived can still be read, nothing more arrives
            self._choose_leader()
        if items:
            await self._backend.shield(self._give_back(items))

    def _choose_leader(self) -> None:
        """Lets the first of those that wait send the next request, if there is to be one. The caller holds the lock."""
        self._in_flight = [request for request in self._in_flight if not request.is_over]
        if self._leader is None and self._waiting and self._may_send():
            self._leader = self._waiting[0]  # not popleft(): an interrupt after that call would lose the step
            del self._waiting[0]
        if self._leader is not None and self._leader.waiter is not None:
            self._leader.waiter.wake()  # perhaps again: an interrupt may have come before the first time

    def _may_send(self) -> bool:
        """Whether another request may begin now. The caller holds the lock."""
        is_one_of_two = (
            len(self._in_flight) == 1 and self._loops() >= _MANY and len(self._waiting) >= _MANY // 2
        )
        return is_one_of_two or not self._in_flight

    def _loops(self) -> int:
        """The number of steps in flight and of those that wait. The caller holds the lock."""
        return len(self._waiting) + sum(len(request.steps) for request in self._in_flight)

    async def _send_next(self, own: _Step[AnyItem], session: str | None) -> None:
        request: _Request[AnyItem] = _Request()
        try:
            if own.waiter is not None:
                await self._backend.sleep(0)  # those that have their answers now may come along
            self._fill(request, own)
            if request.steps:  # none if its caller was interrupted in between
                await self._send(request, session)
        except BaseException:  # an interrupt of this caller is none of the others
            with self._line:
                for step in reversed(request.steps):
                    if step.is_settled:
                        self._wake(step)
                    elif step is not own and step.is_wanted:
                        step.is_repeated = True
                        self._waiting.appendleft(step)
            raise
        finally:
            request.is_over = True
            with self._line:
                self._choose_leader()

    def _fill(self, request: _Request[AnyItem], own: _Step[AnyItem]) -> None:
        """Adds the leader's step and those that go with it. Nothing if it does not lead any more."""
        with self._line:
            if self._leader is not own:
                return
            self._in_flight.append(request)
            request.steps.append(own)
            self._leader = None
            loops = self._loops()
            most = loops if loops < _MANY else (loops + 1) // 2
            size = own.chunk
            while self._waiting and len(request.steps) < most and size + self._waiting[0].chunk <= wire.MOST:
                size += self._waiting[0].chunk
                request.steps += [self._waiting[0]]
                del self._waiting[0]  # as in _choose_leader
            self._choose_leader()

    async def _send(self, request: _Request[AnyItem], session: str | None) -> None:
        steps = request.steps
        body = wire.next_body(
            [(step.verb, step.token, step.words) for step in steps],
            sum(step.chunk for step in steps),
            session,
        )
        try:
            reply, is_repeated = await self._connections.call(
                "/v1/next",
                body,
                answer_in=wire.ANSWER_SECONDS,
                try_for=self._patience,
                stopping=request.interrupt,
            )
        except ClaimqError as error:
            for step in steps:
                step.error = error if len(steps) == 1 else _copied(error)
                self._wake(step)
            return
        items = self._received(reply)
        for item in items:
            item.is_begun = False
        outcomes = {one["token"]: one for one in reply["outcomes"]}
        late: list[AnyItem] = []
        for step in steps:
            own, items = items[: step.chunk], items[step.chunk :]
            outcome = wire.read_outcome(outcomes[step.token], repeated=is_repeated or step.is_repeated)
            self._note([outcome])
            with self._line:
                if step.is_wanted:
                    step.items = own
                else:
                    late += own
                step.outcome = outcome
            self._wake(step)
        if late:
            await self._give_back(late)

    @staticmethod
    def _wake(step: _Step[AnyItem]) -> None:
        if step.waiter is not None:
            step.waiter.wake()


def _copied(error: ClaimqError) -> ClaimqError:
    """An error with a traceback of its own, for one of several callers."""
    if isinstance(error, Refused):
        own: ClaimqError = Refused(error.status, error.kind, error.detail, error.errors)
    else:
        own = type(error)(*error.args)
    own.__cause__ = error.__cause__
    return own
