"""Moves, copies or counts the entries of another queue system in batches.

Everything that an enqueue can refuse is asked before an entry leaves its place. A dry run asks the same.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

import claimq
from claimq.errors import ClaimqError, StoreUnavailable
from claimq.internals.operations import internals
from claimq.model import NewItem
from claimq_admin.errors import REFUSED, CommandError, exit_code_of
from claimq_admin.rate_limit import Pace
from claimq_admin.reads.queue_reads import walking
from claimq_cli.migration.entry_items import EntryItems, Found, calls_of
from claimq_cli.migration.layout import Entry, Kept, Layout, OfAnotherQueue
from claimq_cli.migration.source_server import Batch, SourceServer

SAMPLES = 3
_ENTRIES, _JOBS = 500, 50
"""Most entries of a page; fewer where each has a hash that may be large."""
_MARGIN = 60.0
_KNOWN = "the queue knows an item with its id already; --new-ids gives it a new one"


@dataclass(slots=True)
class Moved:
    """The progress and result of an import."""

    enqueued: int = 0
    known: int = 0
    delayed: int = 0
    pending: int = 0
    discarded: int = 0
    returned: int = 0
    by_place: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])
    samples: list[NewItem] = field(default_factory=list[NewItem])

    def keep(self, why: str, example: bytes) -> None:
        """Counts an entry that stays where it is; the first one of each reason is shown."""
        self.kept[why] += 1
        self.examples.setdefault(why, example[:100].decode("utf-8", "backslashreplace"))

    def add(self, label: str, items: Sequence[NewItem], known_count: int) -> None:
        """Counts items that were enqueued, or would be."""
        self.enqueued += len(items) - known_count
        self.known += known_count
        self.delayed += sum(item.at is not None for item in items)
        self.by_place[label] += len(items)
        self.samples += items[: SAMPLES - len(self.samples)]

    @property
    def is_nothing(self) -> bool:
        """Whether the import found no entry at all."""
        return not (self.by_place or self.kept or self.pending or self.discarded or self.returned)


@dataclass(slots=True)
class Mover:
    """An import from another queue system into a queue. ``new_ids``: entries whose ids an item cannot have, or that the
    queue knows already, get new ones."""

    queue: claimq.ReliableQueue
    source: SourceServer
    layout: Layout
    client: str | None
    pace: Pace
    stop: asyncio.Event
    show: Callable[[Moved], None] = lambda _moved: None
    limit: int | None = None
    new_ids: bool = False
    moved: Moved = field(default_factory=Moved)
    is_dry: bool = False
    _examined: int = 0
    _seen: set[str] = field(default_factory=set[str])
    """The ids that a dry run would have enqueued."""
    _back: int = 0
    """Entries of the last page that went back to the place from which they came."""

    async def move(self, pending: str | None) -> Moved:
        """Moves all entries. ``pending``: what to do with a batch that is older than the queue's memory of ids."""
        await self._resume(pending)
        items = await self._entry_items()
        async for page in self._pages(items, is_moving=True):
            for call in calls_of(page):
                if not self.stop.is_set():
                    await self._take(call, items.mark)
        if not self.stop.is_set():
            await self.source.close_import()
        return self.moved

    async def _take(self, call: Sequence[Found], mark: str) -> None:
        now = (await self.queue.snapshot()).now
        entries, token = [candidate.entry for candidate in call], secrets.token_hex(4)
        await self.source.take(entries, queue=self.queue.name, now=now, token=token, mark=mark)
        batch = await self.source.batch()
        if batch is not None:
            await self._enqueue(batch, is_first=True)

    async def copy(self, *, is_copy: bool = True) -> Moved:
        """Enqueues all entries and leaves them in the source. A dry run counts those that a copy would enqueue, or a
        move if not ``is_copy``."""
        batch = await self.source.batch()
        self.moved.pending = len(batch.entries) if batch is not None else 0
        if self.moved.pending and not self.is_dry:
            raise CommandError(
                f"an import that stopped left {self.moved.pending:,} entries; finish it without --copy"
            )
        items = await self._entry_items(is_copy=is_copy)
        async for page in self._pages(items, is_moving=False):
            new = [candidate.item for candidate in page]
            if self.is_dry:
                known_count = len(await self._known_ids(new)) if is_copy else 0
            else:
                known_count = len((await self.queue.enqueue_many(new)).duplicates)
            await self._count(page[0].entry.place, new, known_count)
        return self.moved

    async def _entry_items(self, *, is_copy: bool = False) -> EntryItems:
        leaves_mark = is_copy and not self.is_dry and await self.source.is_known()
        return EntryItems(
            self.layout,
            client=self.client,
            largest=(await self.queue.policy()).max_payload,
            mark=await self.source.mark(is_new=leaves_mark),
            is_copy=is_copy,
            new_ids=self.new_ids,
        )

    async def _known_ids(self, items: Sequence[NewItem]) -> set[str]:
        return await internals(self.queue).known_ids([item.id for item in items if item.id is not None])

    async def _resume(self, pending: str | None) -> None:
        batch = await self.source.batch()
        if batch is None:
            return
        message = (
            f"an import that stopped left {len(batch.entries):,} entries that may be in the queue already"
        )
        if batch.queue != self.queue.name:
            raise CommandError(
                f"{message}, the queue {batch.queue}; first import into that queue again", REFUSED
            )
        window = (await self.queue.policy()).id_window
        age = (await self.queue.snapshot()).now - batch.taken_at
        is_forgotten = age > window - min(_MARGIN, window / 2)
        if is_forgotten and pending is None:
            raise CommandError(
                f"{message}, and the queue no longer remembers their ids (id_window); add --pending enqueue or "
                "--pending return, which puts them back into the source (they may be doubled), or --pending discard "
                "(they may be lost)",
                REFUSED,
            )
        if is_forgotten and pending == "discard":
            await self.source.finish(batch)
            self.moved.discarded = len(batch.entries)
        elif is_forgotten and pending == "return":
            await self.source.finish(batch, batch.entries)
            self.moved.returned = len(batch.entries)
        else:
            await self._enqueue(batch, is_first=False, is_remembered=not is_forgotten)

    async def _enqueue(self, batch: Batch, *, is_first: bool, is_remembered: bool = True) -> None:
        """Enqueues a batch. ``is_first``: no earlier run can have enqueued it, so what the queue knows of it are other
        items, and these entries go back. ``is_remembered``: the queue knows the ids of what was enqueued."""
        items = EntryItems(self.layout, client=self.client, mark=await self.source.mark(is_new=False))
        pairs, back = await self._made(batch, items)
        try:
            done = await self.queue.enqueue_many([item for _, item in pairs]) if pairs else None
        except StoreUnavailable:
            raise
        except (ClaimqError, ValueError, TypeError) as error:
            if is_remembered:
                await self._give_back(batch, pairs)
                raise CommandError(
                    f"{error}; the entries of this step are in the source again", exit_code_of(error)
                ) from error
            raise
        duplicates = set(done.duplicates) if done is not None else set[str]()
        if is_first:
            back += [(entry, _KNOWN) for entry, item in pairs if item.id in duplicates]
            pairs = [(entry, item) for entry, item in pairs if item.id not in duplicates]
        stay = {entry for entry, _ in back}
        await self.source.finish(batch, [entry for entry in batch.entries if entry in stay])
        for entry, why in back:
            self.moved.keep(why, entry.value)
        self._back += len(back)
        known_count = 0 if is_first else len(duplicates)
        await self._count(batch.entries[0].place, [item for _, item in pairs], known_count)

    async def _made(
        self, batch: Batch, items: EntryItems
    ) -> tuple[list[tuple[Entry, NewItem]], list[tuple[Entry, str]]]:
        """The items of a batch, and the entries of which there is none any more, with the reasons: their jobs were
        changed or deleted after they had been taken."""
        pairs: list[tuple[Entry, NewItem]] = []
        back: list[tuple[Entry, str]] = []
        jobs = await self.source.jobs(batch.entries)
        for number, (entry, job) in enumerate(zip(batch.entries, jobs, strict=True), start=batch.moved + 1):
            try:
                if isinstance(job, Kept):
                    raise job
                item = items.taken(entry, job, new_id=f"import-{batch.token}-{number}")
            except (Kept, OfAnotherQueue) as why:
                back.append((entry, str(why) or "it is of another queue now"))
            else:
                pairs.append((entry, item))
        return pairs, back

    async def _give_back(self, batch: Batch, pairs: Sequence[tuple[Entry, NewItem]]) -> None:
        """Puts the entries of a refused batch back to where they were. Those that an earlier run had enqueued stay
        away."""
        known_ids = await self._known_ids([item for _, item in pairs])
        stored = {entry for entry, item in pairs if item.id in known_ids}
        await self.source.finish(batch, [entry for entry in batch.entries if entry not in stored])

    async def _count(self, place: int, items: Sequence[NewItem], known_count: int) -> None:
        if items:
            self.moved.add(self.layout.places[place].label, items, known_count)
        self.show(self.moved)
        await self.pace.wait(len(items), self.stop)

    async def _pages(self, items: EntryItems, *, is_moving: bool) -> AsyncIterator[list[Found]]:
        """Entries that can be imported, a page of one place at a time, until ``stop`` is set. ``is_moving``: a page
        has left its place when the next one is read, but for entries that went back."""
        wrong = await self.source.wrong_types()
        if (only := wrong.get(self.layout.places[0].key)) and len(self.layout.places) == 1:
            raise CommandError(
                f"the key {self.layout.places[0].key} on the server of the source is {only}, so nothing was imported; "
                "name the key or the system that has the entries (--from)",
                REFUSED,
            )
        for key, what in wrong.items():
            self.moved.keep(f"{key} is {what}; its entries stay", key.encode())
        reads = walking("import")
        most = self.pace.most(_JOBS if self.layout.has_job_hashes else _ENTRIES)
        for place in range(len(self.layout.places)):
            if self.layout.places[place].key in wrong:
                continue
            first = 0
            while not self.stop.is_set():
                room = most if self.limit is None else min(most, self.limit - self._examined)
                with reads as read:
                    page = await read.reply(self.source.page(place, first, room)) if room > 0 else []
                if not page:
                    break
                usable = await self._usable(page, first, items)
                self._examined += len(usable)
                self._back = 0
                if usable:
                    yield usable
                first += len(page) - (len(usable) - self._back if is_moving else 0)

    async def _usable(self, page: Sequence[Entry], first: int, items: EntryItems) -> list[Found]:
        candidates: list[Found] = []
        jobs = await self.source.jobs(page)
        for position, (entry, job) in enumerate(zip(page, jobs, strict=True), start=first):
            try:
                if isinstance(job, Kept):
                    raise job
                candidates.append(items.found(entry, job, position))
            except Kept as why:
                self.moved.keep(str(why), entry.value)
            except OfAnotherQueue:
                pass
        return candidates if items.is_copy else await self._unknown(candidates)

    async def _unknown(self, candidates: Sequence[Found]) -> list[Found]:
        """Those entries whose items an enqueue would add. Others stay, or get new ids."""
        known_ids = self._seen | await self._known_ids([candidate.item for candidate in candidates])
        unknown: list[Found] = []
        for candidate in candidates:
            if candidate.item.id is None or candidate.item.id not in known_ids:
                unknown.append(candidate)
            elif self.new_ids:
                entry = replace(candidate.entry, is_renamed=True)
                unknown.append(Found(entry, replace(candidate.item, id=None)))
            else:
                self.moved.keep(_KNOWN, candidate.entry.value)
            if candidate.item.id is not None:
                known_ids.add(candidate.item.id)
        if self.is_dry:
            self._seen = known_ids
        return unknown
