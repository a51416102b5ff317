"""Changes of all waiting, delayed or failed items that pass a filter, one after another. A process that dies in the
middle has changed the first ones: repeat the change for the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from claimq.codec import BARE_ID
from claimq.errors import ItemOutOfReach, ItemRefused
from claimq.model import Located, State
from claimq.redis_store.bounded_read import BoundedRead
from claimq_admin.changes.item_actions import ActionRecord, ItemChange, NotInFailed, act_on, turn_for
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.errors import CommandError
from claimq_admin.rate_limit import UNLIMITED, Pace
from claimq_admin.reads.queue_reads import MOST_BYTES, bytes_of, page_of, walking
from claimq_admin.selection.item_filter import ItemFilter, entered_at
from claimq_control.large_reads import in_turn

_MOST_SAMPLES = 10
_MOST_PROBLEMS = 1000


@dataclass(frozen=True, slots=True)
class Change:
    """What is done to items. ``action``: its name in the audit log.

    ``one`` changes an item that has so many others of its list before it; its result is false if it was not there any
    more, and CommandError says why it must stay. ``all``, if there is one, lets the server choose the items by the
    filters ``by``; returns their number. ``is_to_head``: the items stay in main, before all others.
    """

    action: str
    one: Callable[[Located, int], Awaitable[object]]
    all: Callable[[], Awaitable[int]] | None = None
    by: tuple[str, ...] = ()
    is_to_head: bool = False


@dataclass
class SelectedItems:
    """The items of a queue in a state that pass a filter, and changes of them: failed ones oldest failure first,
    waiting ones in claim order, delayed ones by due time. At most ``rate`` items are changed in a second.

    Items that enter the state while a change runs are left alone. The counts grow: of ``total`` items ``looked_at``
    were looked at, ``matched`` passed and ``changed`` were changed. ``problems``: why others were not, the first 1,000.
    ``samples``: the first that :meth:`count` has found. ``note`` is called after each step.
    """

    admin: QueueAdmin
    wanted: ItemFilter
    limit: int | None = None
    state: State = State.FAILED
    rate: float | None = None
    reads: BoundedRead = field(default_factory=lambda: walking("items"))
    """Bounds the time that the server takes for all pages of items."""

    total: int = 0
    looked_at: int = 0
    matched: int = 0
    changed: int = 0
    problem_count: int = 0
    samples: list[Located] = field(default_factory=list[Located])
    problems: list[str] = field(default_factory=list[str])
    note: Callable[[], object] = field(default=lambda: None)

    def steps_of(self, change: ItemChange) -> Change:
        """How the items of this state are changed: waiting or delayed ones are claimed for a moment. Raises ValueError
        if they cannot be changed so."""
        is_failed = self.state is State.FAILED
        if (is_failed and change.action in ("cancel", "run-now")) or (
            change.action == "move" and self.admin.destination is None
        ):
            raise ValueError(f"items in {self.state.value} have no action {change.action}")

        async def step(item: Located, position: int) -> bool:
            claim = None
            if not is_failed:
                claim = await self.admin.queue.claim_item(item.item.id, located=item, position=position)
                if claim is None:
                    return False
            try:
                await act_on(self.admin, item, claim, change)
            except NotInFailed:
                return False
            return True

        steps = Change(
            f"{change.action} {self.state.value}",
            step,
            is_to_head=change.action == "run-now" and self.state is State.MAIN,
        )
        if is_failed and change.action == "requeue":
            return replace(steps, all=self._requeue_all, by=("min_age", "max_given_up_count"))
        if is_failed and change.action == "remove":
            return replace(steps, all=self._remove_all, by=("min_age", "min_given_up_count"))
        return steps

    async def _requeue_all(self) -> int:
        return await self.admin.queue.requeue_failed(
            min_age=self.wanted.min_age or 0.0,
            max_given_up_count=self.wanted.max_given_up_count,
            limit=self.limit,
        )

    async def _remove_all(self) -> int:
        removed = await self.admin.queue.remove_failed(
            min_age=self.wanted.min_age,
            min_given_up_count=self.wanted.min_given_up_count,
            limit=self.limit,
            log_limit=0,
        )
        return removed.count

    async def count(self, stop: asyncio.Event) -> None:
        """The dry run: counts the items, and keeps the first ones as ``samples``, fewer if they are large."""
        size = 0

        async def stays(located: Located, _: int) -> bool:
            nonlocal size
            if len(self.samples) < _MOST_SAMPLES and size < MOST_BYTES:
                self.samples.append(located)
                size += bytes_of(located.item)
            return True

        await self._each(stays, UNLIMITED, stop)

    async def run(self, change: ItemChange, stop: asyncio.Event) -> None:
        """Changes the items until the event is set. Records it at the beginning, and at the end with the number of
        changed items. ValueError if items of this state cannot be changed so."""
        await self.carry_out(self.steps_of(change), stop)

    async def carry_out(self, change: Change, stop: asyncio.Event) -> None:
        """Makes a change of the items, see :meth:`run`."""

        async def stays(located: Located, position: int) -> bool:
            before = self.problem_count
            is_there = await self._try(change, located, position)
            return self.problem_count > before or (is_there and change.is_to_head)

        pace = Pace(self.rate)
        records = ActionRecord(self.admin, change.action)
        async with records.selection(str(self.wanted), lambda: self.changed):
            if change.all and pace.is_unlimited and self.wanted.only(*change.by):
                self.changed = self.matched = await change.all()
            else:
                await self._each(stays, pace, stop)

    async def _try(self, change: Change, located: Located, position: int) -> bool:
        """Changes an item; False if it is not there any more. Notes why it must stay, if so."""
        try:
            async with turn_for(located, self.admin.turn):
                is_changed = bool(await change.one(located, position))
        except (CommandError, ItemRefused, ItemOutOfReach) as error:
            self.problem_count += 1
            if len(self.problems) < _MOST_PROBLEMS:
                self.problems.append(str(error))
            return True
        self.changed += is_changed
        return is_changed

    async def _each(
        self, stays: Callable[[Located, int], Awaitable[bool]], pace: Pace, stop: asyncio.Event
    ) -> None:
        """Calls ``stays`` with each item that passes; it returns whether the item is still in the state, before the
        next ones.
        """
        begin = await self.admin.queue.snapshot()
        client = self.wanted.client if self.state is State.MAIN else None
        self.total = (
            begin.lengths[self.state] if client is None else await self.admin.queue.client_length(client)
        )
        staying = Counter[str | None]()  # by client: each has a list of its own
        while True:
            with self.reads:
                read = partial(page_of, self.admin.queue, self.state, staying.total(), client)
                page = await in_turn(self.admin.turn, read)
            if not page:
                return
            for located in page:
                if stop.is_set() or self.matched == self.limit or self.looked_at == self.total:
                    return
                owner = located.item.client if self.state is State.MAIN else None
                if entered_at(located) > begin.now:
                    if self.state is State.FAILED:  # and so are all that follow
                        return
                    staying[owner] += 1
                    continue
                self.looked_at += 1
                if located.item.id != BARE_ID and self.wanted.passes(located, begin.now):
                    self.matched += 1
                    staying[owner] += await stays(located, staying[owner])
                    await pace.wait(1, stop)
                else:
                    staying[owner] += 1
                self.note()
