"""Steps of quick loops from item to item: those that come while a request is in flight share the next one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from claimq.errors import ClaimqError
from claimq.model import Outcome
from claimq.worker import wire
from claimq.worker.backends import Backend, Waiter
from claimq.worker.connection import Connections
from claimq.worker.errors import Refused, SidecarUnavailable
from claimq.worker.item import AnyItem
from claimq.worker.stopping import Stopping


@dataclass(slots=True, eq=False)
class _Step(Generic[AnyItem]):
    """One loop's step: the claim that ends, and how many items to claim.

    Its caller waits for ``waiter``, and then finds an outcome, an error, or neither: then it ``leads``, so that
    it sends the next request.
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
    leads: bool = False
    sends: bool = False
    """Whether :meth:`Steps._send_next` runs for it, which hands over also when the caller is gone."""

    @property
    def is_settled(self) -> bool:
        """Whether there is an answer for its caller."""
        return self.outcome is not None or self.error is not None


class Steps(Generic[AnyItem]):
    """Sends one request at a time for all loops of a worker; a single loop's step is sent at once.

    The thread or task whose step finds no request in flight sends it. Those that come in between wait, and the first of
    them sends the next request, with the steps of all.
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
        self._waiting: deque[_Step[AnyItem]] = deque()
        self._in_flight = threading.Lock()
        """Held from the choice of a sender until a request has ended and no step waits."""
        self._line = threading.Lock()
        """Guards who sends next, and what a caller has received."""
        self._sent: list[_Step[AnyItem]] = []
        """The steps of the request in flight."""
        self._interrupt = Stopping()
        """Ends that request."""

    async def step(
        self, verb: str, token: str, words: dict[str, object], chunk: int, session: str | None
    ) -> tuple[Outcome, list[AnyItem]]:
        """Ends a claim and claims up to ``chunk`` items. Raises SidecarUnavailable, StoreUnavailable, Refused."""
        step: _Step[AnyItem] = _Step(verb, token, words, chunk)
        try:
            if self._in_flight.acquire(blocking=False):
                step.leads = True
                self._waiting.appendleft(step)
            else:
                step.waiter = self._backend.waiter()
                self._waiting.append(step)
                if self._in_flight.acquire(blocking=False):  # the request has ended in between
                    self._hand_over()
                await step.waiter.wait()
            if not step.is_settled:
                step.sends = True
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
            leads = step.leads and not step.sends
            if step in self._waiting:
                self._waiting.remove(step)
            if step in self._sent and not any(one.is_wanted for one in self._sent):
                self._interrupt.stop()  # what had arrived can still be read, nothing more arrives
        if leads:
            self._hand_over()
        if items:
            await self._backend.shield(self._give_back(items))

    def _hand_over(self) -> None:
        """Lets the first of those that wait send the next request."""
        while True:
            with self._line:
                if self._waiting:
                    first = self._waiting[0]
                    first.leads = True
                    break
            self._in_flight.release()
            if not self._waiting or not self._in_flight.acquire(blocking=False):
                return
        if first.waiter is not None:
            first.waiter.wake()

    async def _send_next(self, own: _Step[AnyItem], session: str | None) -> None:
        steps: list[_Step[AnyItem]] = []
        try:
            if own.waiter is not None:
                await self._backend.sleep(0)  # those that have their answers now may come along
            steps = self._take()
            if steps:  # none if its caller was cancelled in between
                await self._send(steps, session)
        except BaseException:  # an interrupt of this caller is none of the others
            with self._line:
                for step in reversed(steps):
                    if step.is_settled:
                        self._wake(step)
                    elif step is not own and step.is_wanted:
                        step.is_repeated = True
                        self._waiting.appendleft(step)
            raise
        finally:
            self._sent = []
            self._hand_over()

    def _take(self) -> list[_Step[AnyItem]]:
        """The steps that fit one request."""
        steps: list[_Step[AnyItem]] = []
        size = 0
        with self._line:
            while self._waiting and size + self._waiting[0].chunk <= wire.MOST:
                steps.append(self._waiting.popleft())
                size += steps[-1].chunk
            self._sent, self._interrupt = steps, Stopping()
        return steps

    async def _send(self, steps: Sequence[_Step[AnyItem]], session: str | None) -> None:
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
                stopping=self._interrupt,
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
        if step.waiter is not None and not step.leads:
            step.waiter.wake()


def _copied(error: ClaimqError) -> ClaimqError:
    """An error with a traceback of its own, for one of several callers."""
    if isinstance(error, Refused):
        own: ClaimqError = Refused(error.status, error.kind, error.detail, error.errors)
    else:
        own = type(error)(*error.args)
    own.__cause__ = error.__cause__
    return own
