"""The client for threads: ``claimq.worker.connect()``."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from types import TracebackType
from typing import Self

from claimq.worker.connection import Connections
from claimq.worker.endings import (
    NO_VERDICT,
    counts_at_the_end,
    exit_error,
    forgotten_message,
    is_forgotten,
    waits_for_itself,
)
from claimq.worker.errors import ItemNotSettled, Refused, SidecarUnavailable, StoreUnavailable, WorkerError
from claimq.worker.item import Item
from claimq.worker.session import Session
from claimq.worker.stopping import Stopping
from claimq.worker.values import Enqueued, NewItem, Outcome
from claimq.worker.wire import (
    claim_body,
    enqueue_bodies,
    fail_words,
    read_enqueued,
    read_items,
    read_outcomes,
    socket_path,
    verdict_bodies,
)  # fmt: skip

ANSWER_SECONDS = 30.0
"""How long the sidecar may take to answer, besides the wait of a claim."""
_log = logging.getLogger("claimq.worker")


class Worker:
    """A connection to the sidecar. Use it as a context manager; any thread may call its methods.

    Claims are made under a session: the sidecar renews their leases while this process lives, and gives them
    back at once when it dies. ``patience``: seconds for which a verdict is tried while the sidecar or its
    store is away.
    """

    def __init__(
        self, socket: str | os.PathLike[str] | None = None, *, session: bool = True, patience: float = 120.0
    ) -> None:
        self.path = socket_path(socket)
        self._patience = patience
        self._connections = Connections(self.path)
        self._lock = threading.Lock()
        self._in_hand: dict[str, Item] = {}
        self._stopping = Stopping()
        self._told_to_drain = False
        self._pid = os.getpid()
        self._session = Session(self.path, self._tokens, self._note_lost) if session else None

    @property
    def draining(self) -> bool:
        """Whether the sidecar hands out no more: finish what is in hand and end."""
        return self._told_to_drain or (self._session is not None and self._session.draining)

    @property
    def in_hand(self) -> list[Item]:
        """Items that were claimed here and have no verdict yet."""
        with self._lock:
            return list(self._in_hand.values())

    def wait_until_open(self, within: float) -> None:
        """Waits for the sidecar to answer. Raises SidecarUnavailable that says why it does not."""
        if self._session is not None:
            self._session.id(within)
        else:
            self._connections.probe(within)

    # Claiming.
    def claim(self, max: int = 1, *, wait: float | None = None) -> list[Item]:  # noqa: A002 - as in the HTTP API
        """Up to ``max`` (1 to 1,000) items, waiting ``wait`` seconds (up to 300) for the first.

        By default it waits as long as the queue's policy says. Empty when there are none, and during a drain
        (see :attr:`draining`). Raises SidecarUnavailable, StoreUnavailable, Refused.
        """
        return self._note_claim(self._claim(max, wait, try_for=5.0), wait)

    def _claim(self, most: int, wait: float | None, *, try_for: float) -> list[Item]:
        self._check_process()
        answer_in = ANSWER_SECONDS + (wait or 0.0)
        in_main = threading.current_thread() is threading.main_thread()
        session = None if self._session is None else self._session.id(ANSWER_SECONDS, abandon=self._is_over)
        for _ in range(3):
            try:
                reply, _ = self._connections.call(
                    "/v1/claim",
                    claim_body(most, wait, session),
                    answer_in=answer_in,
                    try_for=try_for,
                    using=self._stopping.waits_on if in_main else None,
                    abandon=lambda: self._stopping.asked,
                )
                break
            except Refused as refused:
                if self._session is None or refused.status != 409:
                    raise
                session = self._session.id(ANSWER_SECONDS, other_than=session, abandon=self._is_over)
        else:
            raise SidecarUnavailable(f"the sidecar on {self.path} closes every session; see its log")
        self._told_to_drain = self._told_to_drain or bool(reply["draining"])
        items = read_items(reply, lambda **values: Item(self, **values))
        with self._lock:
            self._in_hand.update((item.token, item) for item in items)
        return items

    def _note_claim(self, items: list[Item], wait: float | None) -> list[Item]:
        """Notes who has claimed these; logs once what a claim that waited for nothing may have waited for."""
        me = threading.get_ident()
        for item in items:
            item.claimed_by = me
        held = [one for one in self.in_hand if one.claimed_by == me and not one.in_block]
        if held and not items and wait != 0:
            _log.warning("%s", waits_for_itself(held, block="with item"))
            for item in held:
                item.claimed_by = None
        return items

    def items(
        self,
        *,
        chunk: int = 1,
        wait: float = 5.0,
        handle_signals: bool = True,
        settle_elsewhere: bool = False,
    ) -> Iterator[Item]:
        """Items, one by one, until a drain or a signal; the item in hand is finished first.

        SIGTERM and SIGINT end it in the main thread, unless ``handle_signals`` is False. ``chunk`` items are
        claimed at once; those of them that were not begun go back to the head, uncounted. Outages of the
        sidecar or its store are waited out (``patience`` for the sidecar).

            for item in worker.items():
                with item:
                    work(item.json())

        Asking for the next item while the last one has neither a verdict nor an open ``with`` block fails that
        item and raises ItemNotSettled, since nothing else would ever end it. With ``settle_elsewhere`` this is
        not checked: another thread ends the items.
        """
        chunk_left: list[Item] = []
        with self._stopping.on_signals() if handle_signals else nullcontext():
            try:
                while not self._is_over():
                    chunk_left = self._claim_through_outages(chunk, wait)
                    if not settle_elsewhere:
                        self._note_claim(chunk_left, wait)
                    for item in chunk_left:
                        item.is_begun = False
                    while chunk_left and not self._is_over():
                        item = chunk_left.pop(0)
                        item.is_begun = True
                        yield item
                        if not settle_elsewhere and is_forgotten(item):
                            self.settle_quietly("fail", [item], fail_words(NO_VERDICT, permanent=False))
                            raise ItemNotSettled(forgotten_message(item, block="with item"))
            finally:
                self.settle_quietly("unclaim", chunk_left, {})

    def stop(self) -> None:
        """Ends :meth:`items` after the item in hand. Safe in a signal handler and in any thread."""
        self._stopping.stop()

    def _is_over(self) -> bool:
        return self._stopping.asked or self.draining

    def _claim_through_outages(self, chunk: int, wait: float) -> list[Item]:
        try:
            return self._claim(chunk, wait, try_for=self._patience)
        except StoreUnavailable as error:
            if not self._is_over():
                _log.warning("%s", error)
            return []
        except SidecarUnavailable:
            if self._is_over():
                return []
            raise

    # Verdicts.
    def done(self, items: Iterable[Item | str]) -> list[Outcome]:
        """The work on all of these is finished. Items or tokens."""
        return self.settle("done", items, {})

    def fail(self, items: Iterable[Item | str], error: object, *, permanent: bool = False) -> list[Outcome]:
        """This attempt failed for all of these, for the same reason."""
        return self.settle("fail", items, fail_words(error, permanent=permanent))

    def requeue(self, items: Iterable[Item | str], *, delay: float | None = None) -> list[Outcome]:
        """Not now, for all of these."""
        return self.settle("requeue", items, {"delay": delay})

    def unclaim(self, items: Iterable[Item | str]) -> list[Outcome]:
        """The work on these never began: back to the head in the order of claiming, uncounted."""
        return self.settle("unclaim", items, {})

    def renew(self, items: Iterable[Item | str]) -> list[Outcome]:
        """Moves the ends of these leases; only needed without a session."""
        listed = list(items)
        outcomes = self._verdict("renew", [_token(item) for item in listed], {})
        for item, outcome in zip(listed, outcomes, strict=True):
            if isinstance(item, Item) and outcome.lease_until is not None:
                item.lease_until = outcome.lease_until
        return outcomes

    def settle(self, verb: str, items: Iterable[Item | str], words: dict[str, object]) -> list[Outcome]:
        """A verdict on these, tried for ``patience`` seconds; each item's ``outcome`` says what it did.

        Raises SidecarUnavailable, StoreUnavailable.
        """
        tokens = [_token(item) for item in items]
        outcomes = self._verdict(verb, tokens, words)
        with self._lock:
            for outcome in outcomes:
                item = self._in_hand.pop(outcome.token, None)
                if item is not None:
                    item.outcome = outcome
        return outcomes

    def _verdict(self, verb: str, tokens: list[str], words: dict[str, object]) -> list[Outcome]:
        self._check_process()
        outcomes: list[Outcome] = []
        for body in verdict_bodies(tokens, words):
            reply, repeated = self._connections.call(
                f"/v1/{verb}", body, answer_in=ANSWER_SECONDS, try_for=self._patience
            )
            outcomes += read_outcomes(reply, repeated=repeated)
        return outcomes

    def settle_quietly(self, verb: str, items: Iterable[Item], words: dict[str, object]) -> None:
        """A verdict on those that have none; what it cannot be given for now goes back with the session."""
        tokens = [item.token for item in items if item.outcome is None]
        try:
            if tokens:
                self.settle(verb, tokens, words)
        except WorkerError as error:
            _log.warning("%d items could not be given back now: %s", len(tokens), error)

    def end_interrupted(self, item: Item, error: BaseException) -> None:
        """Its block was left by something that is no Exception: a failure where the program ended itself with an error
        and had not been asked to stop, else uncounted.
        """
        why = None if self._is_over() else exit_error(error)
        if why is None:
            self.settle_quietly("unclaim", [item], {})
        else:
            _log.warning("item %s failed: %s", item.id, why)
            self.settle_quietly("fail", [item], fail_words(why, permanent=False))

    # Enqueueing.
    def enqueue(self, items: Iterable[object]) -> Enqueued:
        """Adds payloads (bytes, text, dict, list) or :class:`NewItem` to the sidecar's queue, in order.

        Raises TypeError, Refused (a payload too large, the store full), StoreUnavailable, SidecarUnavailable:
        after the last two it is not known whether the items were stored, and only items with ids of the app's
        own may be enqueued again without doubling them.
        """
        self._check_process()
        listed = list(items)
        repeatable = all(isinstance(item, NewItem) and item.id is not None for item in listed)
        replies = [
            self._connections.call(
                "/v1/enqueue", body, answer_in=ANSWER_SECONDS, try_for=self._patience, repeatable=repeatable
            )[0]
            for body in enqueue_bodies(listed)
        ]
        return read_enqueued(replies)

    # The end.
    def close(self) -> None:
        """Ends the session and all connections.

        What is in hand without a verdict goes back at once, counted as a crash.
        """
        if os.getpid() != self._pid:
            return
        if self._session is not None:
            self._session.close()
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives back what is in hand, uncounted. After an exception, or ``sys.exit`` with a code other than 0 that
        nothing asked for, the session's end does, as a crash, for all that the app was given.
        """
        counts = counts_at_the_end(error, is_over=self._is_over())
        self.settle_quietly("unclaim", [one for one in self.in_hand if not (counts and one.is_begun)], {})
        self.close()

    def _tokens(self) -> list[str]:
        with self._lock:
            return list(self._in_hand)

    def _note_lost(self, tokens: Iterable[str]) -> None:
        """The sidecar came back and these were not held any more."""
        for token in tokens:
            with self._lock:
                item = self._in_hand.pop(token, None)
            if item is not None:
                item.outcome = Outcome(token, "lost")
                _log.warning(
                    "item %s was lost while the sidecar was away; somebody else has it or will", item.id
                )

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise SidecarUnavailable(
                "this worker was connected before a fork; connect anew in the child process"
            )


def _token(item: Item | str) -> str:
    return item if isinstance(item, str) else item.token


def connect(
    socket: str | os.PathLike[str] | None = None,
    *,
    session: bool = True,
    within: float = 10.0,
    patience: float = 120.0,
) -> Worker:
    """Connects to the sidecar and opens a session.

    ``socket``: its path, by default ``$CLAIMQ_SOCKET``, else /run/claimq/claimq.sock. ``within``: seconds to
    wait for the sidecar to come up; then SidecarUnavailable says what is missing. With ``session=False``
    claims have plain leases that the app renews itself, and survive it until they run out.
    """
    worker = Worker(socket, session=session, patience=patience)
    try:
        worker.wait_until_open(within)
    except BaseException:
        worker.close()
        raise
    return worker
