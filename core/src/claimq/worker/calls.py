"""Calls of a worker on its sidecar: claims, verdicts, and the session that they belong to."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic

from claimq.errors import ClaimqError
from claimq.model import Outcome
from claimq.worker import wire
from claimq.worker.backends import Backend
from claimq.worker.connection import Connections
from claimq.worker.errors import Refused, SidecarUnavailable
from claimq.worker.in_flight import InFlight
from claimq.worker.item import AnyItem, ClaimedItem, listed, tokens_of
from claimq.worker.session import Session
from claimq.worker.stopping import Stopping

_log = logging.getLogger("claimq.worker")


class Calls(Generic[AnyItem]):
    """The calls of one process. ``patience``: seconds for which a verdict is tried in an outage."""

    session: Session | None = None
    """None: claims have plain leases."""

    def __init__(self, backend: Backend, item: type[AnyItem], path: str, patience: float) -> None:
        self.path = path
        self.backend = backend
        self.patience = patience
        self.connections = Connections(path, backend)
        self.in_flight: InFlight[AnyItem] = InFlight()
        self.stopping = Stopping()
        self.end_block: Callable[[Any, BaseException | None], Coroutine[Any, Any, bool]]
        """The verdict at the end of an item's block, see :meth:`Loops.end_block`."""
        self._item = item
        self._drain_seen = False
        self._pid = os.getpid()

    @property
    def draining(self) -> bool:
        """Whether the sidecar gives no more items."""
        return self._drain_seen or (self.session is not None and self.session.draining)

    @property
    def queue(self) -> str | None:
        """The queue of the sidecar, if the session knows its name."""
        return self.session.queue if self.session is not None else None

    def is_over(self) -> bool:
        """Whether the worker was asked to stop, by the program or by the sidecar."""
        return self.stopping.is_asked or self.draining

    @property
    def is_of_this_process(self) -> bool:
        """Whether no fork came in between."""
        return os.getpid() == self._pid

    def check_process(self) -> None:
        """Raises SidecarUnavailable in the child of a fork."""
        if not self.is_of_this_process:
            raise SidecarUnavailable("it was connected before a fork; connect again in the child process")

    async def claim(self, most: int, wait: float | None, stopping: Stopping | None = None) -> list[AnyItem]:
        """Up to ``most`` items; see :meth:`Client.claim`. ``stopping``: of a loop, which waits for the sidecar for
        ``patience`` seconds.
        """
        session_in = wire.ANSWER_SECONDS if stopping is None else self.patience
        try_for = 5.0 if stopping is None else self.patience
        self.check_process()
        wait = await self.connections.default_wait(try_for) if wait is None else wait
        session: str | None = None
        for _ in range(3):
            if self.session is not None:
                session = await self.session.id(session_in, other_than=session, abandon=self.is_over)
            body = wire.claim_body(most, wait, session)
            try:
                reply, _ = await self.connections.call(
                    "/v1/claim",
                    body,
                    answer_in=wire.ANSWER_SECONDS + wait,
                    try_for=try_for,
                    stopping=stopping,
                    abandon=self.is_over if stopping else lambda: False,
                    if_late=self._unclaim_late,
                )
            except Refused as refused:
                if session is None or refused.status != 409:
                    raise
            else:
                return self.received(reply, are_begun=stopping is None)
        raise SidecarUnavailable(f"the sidecar on {self.path} closes every session; see its log")

    def received(self, reply: dict[str, Any], *, are_begun: bool) -> list[AnyItem]:
        """The items in a reply, which have no verdict yet. ``are_begun``: the program gets them at once."""
        self._drain_seen = self._drain_seen or bool(reply["draining"])
        items = [self._item(self, **values) for values in wire.read_claims(reply)]
        for item in items:
            item.is_begun = are_begun
        self.in_flight.add(items)
        return items

    async def _unclaim_late(self, reply: dict[str, Any]) -> None:
        """Gives back what a claim received whose caller was cancelled."""
        await self.settle_quietly("unclaim", self.received(reply, are_begun=False), {})

    async def renew(self, items: AnyItem | str | Iterable[AnyItem | str]) -> list[Outcome]:
        """Extends these leases; only needed without a session. A lost item has its outcome then, and gets no verdict
        at the end of its block: a sidecar that drains does not wait for it."""
        every = listed(items)
        outcomes = await self._verdict("renew", tokens_of(every), {})
        self.in_flight.note_lost(outcome.token for outcome in outcomes if outcome.is_lost)
        for item, outcome in zip(every, outcomes, strict=True):
            if isinstance(item, ClaimedItem) and outcome.lease_until is not None:
                item.lease_until = outcome.lease_until
        return outcomes

    async def settle(
        self, verb: str, items: AnyItem | str | Iterable[AnyItem | str], words: dict[str, object]
    ) -> list[Outcome]:
        """A verdict on these, tried for ``patience`` seconds; each item's ``outcome`` says what it did.

        Raises SidecarUnavailable, StoreUnavailable.
        """
        tokens = tokens_of(listed(items))
        with self.in_flight.ending(tokens):
            return self.in_flight.note_outcomes(await self._verdict(verb, tokens, words))

    async def _verdict(self, verb: str, tokens: list[str], words: dict[str, object]) -> list[Outcome]:
        self.check_process()
        outcomes: list[Outcome] = []
        for path, body in wire.verdict_requests(verb, tokens, words):
            reply, repeated = await self.connections.call(
                path, body, answer_in=wire.ANSWER_SECONDS, try_for=self.patience
            )
            outcomes += wire.read_outcomes(reply, repeated=repeated)
        return outcomes

    async def settle_quietly(self, verb: str, items: Sequence[AnyItem], words: dict[str, object]) -> None:
        """A verdict on those that have none. An error is logged: the items go back with the session then."""
        tokens = [item.token for item in items if item.outcome is None]
        try:
            if tokens:
                await self.settle(verb, tokens, words)
        except ClaimqError as error:
            _log.warning("%d items could not be given back now: %s", len(tokens), error)
