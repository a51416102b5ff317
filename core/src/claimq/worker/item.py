"""Items that an app holds: what a claim returns, and the verdicts on it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from claimq.arguments import Duration, several
from claimq.concurrency.without_loop import run
from claimq.model import Outcome, Priority, payload_json, payload_text
from claimq.tracing import Processing
from claimq.worker.backends import blocking
from claimq.worker.wire import delay_fields, done_fields, fail_fields, later_fields


class _Client(Protocol):
    """What an item uses; see :class:`claimq.worker.calls.Calls`."""

    @property
    def queue(self) -> str | None: ...
    @property
    def end_block(self) -> Callable[[Any, BaseException | None], Coroutine[Any, Any, bool]]: ...
    async def settle(self, verb: str, items: Iterable[Any], words: dict[str, object]) -> list[Outcome]: ...
    async def renew(self, items: Iterable[Any]) -> list[Outcome]: ...


@dataclass(slots=True, eq=False)
class ClaimedItem:
    """An item that the app holds. Instants are Unix seconds by the store's clock.

    ``headers``, ``deadline``, ``max_requeues``, ``priority``, ``key`` and ``cost``: what the producer set. ``outcome``:
    what the last verdict did, or that the claim was lost before it; None until then. ``lease_until`` is as of the claim
    or the last ``renew`` by the app itself: with a session the sidecar renews it in the background.
    """

    _client: _Client = field(repr=False)
    token: str
    id: str
    payload: bytes = field(repr=False)
    client: str | None
    requeue_count: int
    fail_count: int
    crash_count: int
    interrupted_count: int
    enqueued_at: float
    first_enqueued_at: float
    claimed_at: float
    lease_until: float
    header_pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    deadline: float | None = None
    max_requeues: int | None = None
    priority: Priority = Priority.NORMAL
    key: str | None = None
    cost: int = 1
    postponed_count: int = 0
    outcome: Outcome | None = field(default=None, init=False)
    in_block: bool = field(default=False, init=False, repr=False)
    """Whether it is in a ``with`` block that gives it a verdict."""
    is_begun: bool = field(default=True, init=False, repr=False)
    """Whether the app has received it; false for what a loop has claimed ahead."""
    is_ending: bool = field(default=False, init=False, repr=False)
    """Whether its verdict is under way."""
    permit: int = field(default=0, init=False, repr=False)
    """The number of its permit; 0 if it has none, or a loop has read it."""
    begin_before: float = field(default=0.0, init=False, repr=False)
    """If it has a permit: until when its work may begin, by a monotonic clock. The sidecar takes it back sooner, unless
    it does not run."""
    claimed_by: object = field(default=None, init=False, repr=False)
    """The thread or task that claimed it; None once its wait for itself has been logged."""

    work: Processing | None = field(default=None, init=False, repr=False)
    """The span of its ``with`` block."""

    loop: Any = field(default=None, init=False, repr=False)
    """The :class:`claimq.worker.loops.loop.Loop` that gave it to the app and expects its verdict."""

    def begin_block(self) -> None:
        """At the beginning of a ``with`` block."""
        self.in_block, self.work = True, Processing(self._client.queue, [self]).__enter__()

    def note_end(self, error: BaseException | None) -> None:
        """At the end of a ``with`` block, after the verdict."""
        work, self.work = self.work, None
        if work is not None:
            work.note(error)
            work.__exit__()

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the producer set, in a new dict."""
        return dict(self.header_pairs)

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises :class:`PayloadError` if it is not."""
        return payload_text(self.id, self.payload)

    def json(self) -> object:
        """The payload as the JSON value that it holds. Raises :class:`PayloadError` if it does not."""
        return payload_json(self.id, self.payload)


class AsyncItem(ClaimedItem):
    """An item that the app holds; use it with ``async with``, see :class:`Item`.

    Cancelling the task inside the block returns the item uncounted. Awaiting something cancelled, in a task that is
    not cancelled itself, is a failure of the item.
    """

    __slots__ = ()

    async def done(self, *, enqueue: Iterable[object] = ()) -> Outcome:
        """The work is finished. ``enqueue``: payloads or :class:`NewItem` that follow from it, added in the
        same atomic step.
        """
        return (await self._client.settle("done", [self], done_fields(enqueue)))[0]

    async def fail(self, error: object, *, permanent: bool = False, delay: Duration | None = None) -> Outcome:
        """This attempt failed: requeued by the queue's policy, or (at its limit, or ``permanent``) failed.

        ``error``: a text, or an exception, whose last frames are kept as the item's error detail. ``delay``: seconds
        until the next attempt, if there is one, instead of the policy's.
        """
        words = fail_fields(error, permanent=permanent, delay=delay)
        return (await self._client.settle("fail", [self], words))[0]

    async def requeue(self, *, delay: Duration | None = None) -> Outcome:
        """Not now: to the tail, or after ``delay`` (seconds or a timedelta). Counts against the limit."""
        return (await self._client.settle("requeue", [self], delay_fields(delay)))[0]

    async def later(self, delay: Duration, *, close: str | None = None) -> Outcome:
        """Not now: after ``delay``, counting neither an attempt nor a failure; see :class:`claimq.Later`."""
        return (await self._client.settle("later", [self], later_fields(delay, close)))[0]

    async def unclaim(self) -> Outcome:
        """The work never began: back to the head, uncounted."""
        return (await self._client.settle("unclaim", [self], {}))[0]

    async def renew(self) -> Outcome:
        """Extends the lease; only needed without a session."""
        return (await self._client.renew([self]))[0]

    async def __aenter__(self) -> Self:
        self.begin_block()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return await self._client.end_block(self, error)
        finally:
            self.note_end(error)


class Item(ClaimedItem):
    """An item that the app holds. As a context manager: done at the end, or fail with the exception that leaves the
    block.

    The exception is kept with the item, logged, and not raised further, so that a loop continues with the next item;
    only :class:`SidecarUnavailable` is, since no verdict can be sent. :class:`claimq.Fail`, :class:`claimq.Requeue`
    and :class:`claimq.Later` are verdicts that the block may raise. A KeyboardInterrupt or SystemExit is raised
    further: ``sys.exit`` with a code other than 0 fails the item unless the worker was asked to stop; otherwise the
    item is returned uncounted. After a verdict inside the block its end sends none.
    """

    __slots__ = ()

    done = blocking(AsyncItem.done)
    fail = blocking(AsyncItem.fail)
    requeue = blocking(AsyncItem.requeue)
    later = blocking(AsyncItem.later)
    unclaim = blocking(AsyncItem.unclaim)
    renew = blocking(AsyncItem.renew)

    def __enter__(self) -> Self:
        self.begin_block()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            return run(self._client.end_block(self, error))
        finally:
            self.note_end(error)


AnyItem = TypeVar("AnyItem", bound=ClaimedItem)


def listed(items: AnyItem | str | Iterable[AnyItem | str]) -> list[AnyItem | str]:
    """The items or tokens of a call, one or several. Raises TypeError for anything else."""
    return [items] if isinstance(items, ClaimedItem | str) else several("items", items)


def tokens_of(items: Iterable[ClaimedItem | str]) -> list[str]:
    """The tokens of items; a token stands for itself."""
    return [item if isinstance(item, str) else item.token for item in items]
