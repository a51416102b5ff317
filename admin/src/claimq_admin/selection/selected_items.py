"""Changes of all waiting, delayed or failed items that pass a filter, one after another. A process that dies in the
middle has changed the first ones: repeat the change for the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from claimq.codec import BARE_ID
from claimq.errors import ItemOutOfReach, ItemRefused
from claimq.internals.chosen_failed import chosen_failed
from claimq.model import Located, State
from claimq.queue.token_groups import MOVES
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
    more, and CommandError says why it must stay. ``many``, if there is one, changes up to 100 at once; returns their
    number. ``all``, if there is one, lets the server choose the items by the filters ``by``; returns their number.
    ``is_to_head``: the items stay in main, before all others.
    """

    action: str
    one: Callable[[Located, int], Awaitable[object]]
    many: Callable[[Sequence[Located]], Awaitable[int]] | None = None
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
        queue, is_failed = self.admin.queue, self.state is State.FAILED
        if (is_failed and change.action in ("cancel", "run-now")) or (
            change.action == "move" and self.admin.destination is None
        ):
            raise ValueError(f"items in {self.state.value} have no action {change.action}")

        async def step(item: Located, position: int) -> bool:
            claim = None
            if not is_failed:
                claim = await queue.claim_item(item.item.id, located=item, position=position)
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
            by = ("min_age", "max_given_up_count")
            return replace(steps, many=chosen_failed(queue).requeue, all=self._requeue_all, by=by)
        if is_failed and change.action == "remove":
            by = ("min_age", "min_given_up_count")
            return replace(steps, many=chosen_failed(queue).remove, all=self._remove_all, by=by)
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

        async def stays(group: Sequence[Located], _: int) -> int:
            nonlocal size
            (located,) = group
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

        async def stays(group: Sequence[Located], position: int) -> int:
            if change.many:
                self.changed += await change.many(group)
                return 0
            before = self.problem_count
            is_there = await self._try(change, group[0], position)
            return self.problem_count > before or (is_there and change.is_to_head)

        pace = Pace(self.rate)
        records = ActionRecord(self.admin, change.action)
        async with records.selection(str(self.wanted), lambda: self.changed):
            if change.all and pace.is_unlimited and self.wanted.only(*change.by):
                self.changed = self.matched = await change.all()
            else:
                await self._each(stays, pace, stop, pace.most(MOVES) if change.many else 1)

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
        self,
        stays: Callable[[Sequence[Located], int], Awaitable[int]],
        pace: Pace,
        stop: asyncio.Event,
        most: int = 1,
    ) -> None:
        """Calls ``stays`` with groups of up to ``most`` items that pass. It returns how many of them are still in the
        state, before the next ones.
        """
        begin = await self.admin.queue.snapshot()
        client = self.wanted.client if self.state is State.MAIN else None
        self.total = (
            begin.lengths[self.state] if client is None else await self.admin.queue.client_length(client)
        )
        staying = Counter[str | None]()  # by client: each has a list of its own
        while not stop.is_set() and self.matched != self.limit and self.looked_at != self.total:
            with self.reads:
                read = partial(page_of, self.admin.queue, self.state, staying.total(), client)
                page = await in_turn(self.admin.turn, read)
            for group in self._groups(page, begin.now, staying, most):
                if stop.is_set():
                    return
                self.matched += len(group)
                owner = self._owner(group[0])
                staying[owner] += await stays(group, staying[owner])
                self.note()
                await pace.wait(len(group), stop)
            self.note()
            if not page or (self.state is State.FAILED and entered_at(page[-1]) > begin.now):
                return  # all that follow are as new

    def _owner(self, located: Located) -> str | None:
        return located.item.client if self.state is State.MAIN else None

    def _groups(
        self, page: Sequence[Located], now: float, staying: Counter[str | None], most: int
    ) -> Iterator[list[Located]]:
        """Groups of up to ``most`` items of a page that pass. Counts the others as staying."""
        group: list[Located] = []
        for located in page:
            if self.matched + len(group) == self.limit or self.looked_at == self.total:
                break
            is_new = entered_at(located) > now
            self.looked_at += not is_new
            if is_new or located.item.id == BARE_ID or not self.wanted.passes(located, now):
                staying[self._owner(located)] += 1
                continue
            group.append(located)
            if len(group) == most:
                yield group
                group = []
        if group:
            yield group
