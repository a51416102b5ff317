"""Actions on all failed items that pass a filter, one after another. A process that dies in the middle has acted on the
first ones: repeat the action for the rest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

import claimq
from claimq.errors import ItemTooLarge
from claimq.model import Located, State
from claimq_cli.errors import CommandError
from claimq_cli.header_filter import HeaderFilter
from claimq_cli.item_actions import Record, copy_to
from claimq_cli.output.answers import age
from claimq_cli.payload_filter import PayloadFilter
from claimq_cli.queue_reads import failed_page
from claimq_cli.rate_limit import UNLIMITED, Pace

_MOST_SAMPLES = 10
_LONGEST_REASON = 200
_DIGITS = re.compile(r"[0-9]+")


def reason_of(one: Located) -> str:
    """The first line of the error, with ``#`` for numbers, so that equal failures have equal reasons."""
    first = (one.item.last_error or "no error was given").strip().partition("\n")[0]
    return _DIGITS.sub("#", first[:_LONGEST_REASON])


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedFilter:
    """Which failed items: those that pass every filter that is set.

    ``error``: a part of the last error, in any case; ``reason``: what :func:`reason_of` makes of it. ``payload``: what
    the payload has, as JSON. ``header``: a header that the item has. ``min_age``: seconds since the failure.
    """

    error: str = ""
    reason: str = ""
    client: str | None = None
    payload: PayloadFilter | None = None
    header: HeaderFilter | None = None
    min_age: float = 0.0
    min_given_up_count: int = 0
    max_given_up_count: int | None = None

    def passes(self, one: Located, now: float) -> bool:
        """Whether the item passes. ``now``: by the clock of its queue."""
        given_up = one.item.given_up_count
        return (
            self.error.casefold() in (one.item.last_error or "").casefold()
            and self.reason in ("", reason_of(one))
            and self.client in (None, one.item.client)
            and (one.failed_at or 0.0) <= now - self.min_age
            and given_up >= self.min_given_up_count
            and (self.max_given_up_count is None or given_up <= self.max_given_up_count)
            and (self.header is None or self.header.passes(one.item))
            and (self.payload is None or self.payload.passes(one.item.payload))
        )

    def only(self, *names: str) -> bool:
        """Whether no filter but these is set."""
        return replace(self, **{name: getattr(_ALL, name) for name in names}) == _ALL

    def __str__(self) -> str:
        words = [
            f"error contains {self.error!r}" if self.error else "",
            f"reason {self.reason!r}" if self.reason else "",
            f"client {self.client}" if self.client is not None else "",
            f"payload has {self.payload.text}" if self.payload else "",
            f"header {self.header}" if self.header else "",
            f"failed {age(self.min_age)} ago or earlier" if self.min_age else "",
            f"given up {self.min_given_up_count} times or more" if self.min_given_up_count else "",
            f"given up {self.max_given_up_count} times or less"
            if self.max_given_up_count is not None
            else "",
        ]
        return ", ".join(word for word in words if word) or "all"


_ALL = FailedFilter()


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to failed items. ``action``: its name in the audit log.

    ``one`` changes the item of an id; its result is false if it was not there, and CommandError says why it must stay.
    ``all``, if there is one, lets the server choose the items by the filters ``by``; returns their number.
    """

    action: str
    one: Callable[[str], Awaitable[object]]
    all: Callable[[], Awaitable[int]] | None = None
    by: tuple[str, ...] = ()


@dataclass
class FailedAction:
    """One change of the failed items of a queue that pass a filter, oldest failure first.

    Items that fail while it runs are left alone. The counts grow as it runs: ``looked_at`` items of ``total``, of which
    ``matched`` passed and ``changed`` were changed. ``problems``: why others were not. ``note`` is called after each
    item.
    """

    queue: claimq.ReliableQueue
    wanted: FailedFilter
    limit: int | None = None
    total: int = 0
    looked_at: int = 0
    matched: int = 0
    changed: int = 0
    samples: list[Located] = field(default_factory=list[Located])
    problems: list[str] = field(default_factory=list[str])
    note: Callable[[], object] = field(default=lambda: None)

    def requeueing(self) -> Change:
        """Sends the items back to main."""

        async def all_of_them() -> int:
            return await self.queue.requeue_failed(
                min_age=self.wanted.min_age,
                max_given_up_count=self.wanted.max_given_up_count,
                limit=self.limit,
            )

        return Change(
            "requeue failed", self.queue.requeue_failed_item, all_of_them, ("min_age", "max_given_up_count")
        )

    def removing(self) -> Change:
        """Removes the items permanently."""

        async def all_of_them() -> int:
            removed = await self.queue.remove_failed(
                min_age=self.wanted.min_age,
                min_given_up_count=self.wanted.min_given_up_count,
                limit=self.limit,
                log_limit=0,
            )
            return removed.count

        return Change(
            "remove failed", self.queue.remove_failed_item, all_of_them, ("min_age", "min_given_up_count")
        )

    def moving_to(self, target: claimq.ReliableQueue) -> Change:
        """Moves the items to another queue, as :meth:`ItemActions.move` does. Those that it refuses stay."""

        async def move(name: str) -> object:
            found = await self.queue.failed_item(name)
            if found is None:
                return None
            await copy_to(target, found)
            return await self.queue.remove_failed_item(name, failed_at=found.failed_at)

        return Change(f"move failed to {target.name}", move)

    async def count(self, stop: asyncio.Event) -> None:
        """The dry run: counts the items, and keeps the first ones as ``samples``."""

        async def stays(one: Located) -> bool:
            if len(self.samples) < _MOST_SAMPLES:
                self.samples.append(one)
            return True

        await self._each(stays, UNLIMITED, stop)

    async def run_on(self, names: Iterable[str], change: Change, record: Record) -> list[str]:
        """Changes the items of these ids; returns those that are not in failed."""
        missing: list[str] = []
        for name in dict.fromkeys(names):
            await record(change.action, name, count=1)
            if not await self._try(change, name):
                missing.append(name)
        return missing

    async def run(self, change: Change, record: Record, pace: Pace, stop: asyncio.Event) -> None:
        """Changes the items that pass the filter. Records it at the beginning, and at the end with the number of
        changed items.
        """

        async def stays(one: Located) -> bool:
            before = len(self.problems)
            await self._try(change, one.name)
            return len(self.problems) > before

        await record(change.action, str(self.wanted))
        try:
            if change.all and pace.is_unlimited and self.wanted.only(*change.by):
                self.changed = self.matched = await change.all()
            else:
                await self._each(stays, pace, stop)
        finally:
            what = f"{change.action}: ended"
            await record(what, str(self.wanted), count=self.changed)

    async def _try(self, change: Change, name: str) -> bool:
        """Changes an item; False if it is not in failed. Notes why it must stay, if so."""
        try:
            is_changed = bool(await change.one(name))
        except (CommandError, ItemTooLarge) as error:
            self.problems.append(str(error))
            return True
        self.changed += is_changed
        return is_changed

    async def _each(
        self, stays: Callable[[Located], Awaitable[bool]], pace: Pace, stop: asyncio.Event
    ) -> None:
        """Calls ``stays`` with each item that passes; it returns whether the item is still in failed."""
        begin = await self.queue.snapshot()
        self.total = begin.lengths[State.FAILED]
        staying = 0
        while page := await failed_page(self.queue, staying):
            for one in page:
                if stop.is_set() or self.matched == self.limit or (one.failed_at or 0.0) > begin.now:
                    return
                self.looked_at += 1
                if self.wanted.passes(one, begin.now):
                    self.matched += 1
                    staying += await stays(one)
                    await pace.wait(1, stop)
                else:
                    staying += 1
                self.note()
