"""Moves, copies or counts the entries of another queue system in batches."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

import claimq
from claimq.codec import payload_bytes
from claimq.model import NewItem
from claimq_cli.errors import REFUSED, CommandError
from claimq_cli.migration.layout import Entry, Kept, Layout, OfAnotherQueue
from claimq_cli.migration.source_server import Batch, SourceServer
from claimq_cli.rate_limit import Pace

SAMPLES = 3
_ENTRIES, _JOBS = 500, 50
"""Most entries of a page; fewer where each has a hash that may be large."""
_MARGIN = 60.0


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that can be imported, its position in its place, and its item, whose id may be missing."""

    entry: Entry
    position: int
    item: NewItem


@dataclass(slots=True)
class Moved:
    """The progress and result of an import."""

    enqueued: int = 0
    known: int = 0
    delayed: int = 0
    pending: int = 0
    by_place: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, str] = field(default_factory=dict[str, str])
    samples: list[NewItem] = field(default_factory=list[NewItem])

    def keep(self, why: str, entry: Entry) -> None:
        """Counts an entry that stays where it is; the first one of each reason is shown."""
        self.kept[why] += 1
        self.examples.setdefault(why, entry.value[:100].decode("utf-8", "backslashreplace"))

    def add(self, label: str, items: Sequence[NewItem], known: int) -> None:
        """Counts items that were enqueued, or would be."""
        self.enqueued += len(items) - known
        self.known += known
        self.delayed += sum(item.at is not None for item in items)
        self.by_place[label] += len(items)
        self.samples += items[: SAMPLES - len(self.samples)]


@dataclass(slots=True)
class Mover:
    """An import from another queue system into a queue."""

    queue: claimq.ReliableQueue
    source: SourceServer
    layout: Layout
    client: str | None
    pace: Pace
    stop: asyncio.Event
    show: Callable[[Moved], None] = lambda _moved: None
    limit: int | None = None
    moved: Moved = field(default_factory=Moved)
    _largest: int = 0
    _examined: int = 0

    async def move(self, pending: str | None) -> Moved:
        """Moves all entries. ``pending``: what to do with a batch that is older than the queue's memory of ids."""
        await self._resume(pending)
        async for page in self._pages(is_moving=True):
            entries = [found.entry for found in page]
            now = (await self.queue.snapshot()).now
            await self.source.take(entries, queue=self.queue.name, now=now, token=secrets.token_hex(4))
            batch = await self.source.batch()
            if batch is not None:
                await self._enqueue(batch)
        if not self.stop.is_set():
            await self.source.close_import()
        return self.moved

    async def copy(self, *, is_dry: bool) -> Moved:
        """Enqueues all entries and leaves them in the source; with ``is_dry`` counts them only."""
        batch = await self.source.batch()
        self.moved.pending = len(batch.entries) if batch is not None else 0
        if self.moved.pending and not is_dry:
            raise CommandError(
                f"an import that stopped left {self.moved.pending:,} entries; finish it without --copy"
            )
        async for page in self._pages(is_moving=False):
            items = [found.item if is_dry else self._copied(found) for found in page]
            known = 0 if is_dry else len((await self.queue.enqueue_many(items)).duplicates)
            await self._count(page[0].entry.place, items, known)
        return self.moved

    async def _resume(self, pending: str | None) -> None:
        batch = await self.source.batch()
        if batch is None:
            return
        own = f"an import that stopped left {len(batch.entries):,} entries that may be in the queue already"
        if batch.queue != self.queue.name:
            raise CommandError(f"{own}, the queue {batch.queue}; first import into that queue again", REFUSED)
        window = (await self.queue.policy()).id_window
        age = (await self.queue.snapshot()).now - batch.taken_at
        is_forgotten = age > window - min(_MARGIN, window / 2)
        if is_forgotten and pending is None:
            raise CommandError(
                f"{own}, and the queue no longer remembers their ids (id_window); add --pending enqueue (they may be "
                "doubled) or --pending discard (they may be lost)",
                REFUSED,
            )
        if is_forgotten and pending == "discard":
            await self.source.finish(batch)
        else:
            await self._enqueue(batch)

    async def _enqueue(self, batch: Batch) -> None:
        jobs = await self.source.jobs(batch.entries)
        items: list[NewItem] = []
        for number, (entry, job) in enumerate(zip(batch.entries, jobs, strict=True), start=batch.moved + 1):
            try:
                item = self.layout.item(entry, job)
            except (Kept, OfAnotherQueue) as why:  # its job was deleted after it had been taken
                self.moved.keep(f"{why}; removed", entry)
                continue
            items.append(replace(item, id=item.id or f"import-{batch.token}-{number}", client=self.client))
        done = await self.queue.enqueue_many(items)
        await self.source.finish(batch)
        await self._count(batch.entries[0].place, items, len(done.duplicates))

    def _copied(self, found: Found) -> NewItem:
        """The item of an entry that stays. An entry without an id gets one from its place, its position and its value,
        so that a repeated copy adds nothing while the source is unchanged."""
        where = f"{self.layout.places[found.entry.place].key} {found.position} ".encode()
        made = hashlib.sha256(where + found.entry.value).hexdigest()[:32]
        return replace(found.item, id=found.item.id or f"copy-{made}", client=self.client)

    async def _count(self, place: int, items: Sequence[NewItem], known: int) -> None:
        self.moved.add(self.layout.places[place].label, items, known)
        self.show(self.moved)
        await self.pace.wait(len(items), self.stop)

    async def _pages(self, *, is_moving: bool) -> AsyncIterator[list[Found]]:
        """Entries that can be imported, a page of one place at a time, until ``stop`` is set."""
        self._largest = (await self.queue.policy()).max_payload
        most = self.pace.most(_JOBS if self.layout.has_job_hashes else _ENTRIES)
        for place in range(len(self.layout.places)):
            first = 0
            while not self.stop.is_set():
                room = most if self.limit is None else min(most, self.limit - self._examined)
                page = await self.source.page(place, first, room) if room > 0 else []
                if not page:
                    break
                usable = await self._usable(page, first)
                first += len(page) - (len(usable) if is_moving else 0)
                self._examined += len(usable)
                if usable:
                    yield usable

    async def _usable(self, page: Sequence[Entry], first: int) -> list[Found]:
        usable: list[Found] = []
        jobs = await self.source.jobs(page)
        for position, (entry, job) in enumerate(zip(page, jobs, strict=True), start=first):
            try:
                item = self.layout.item(entry, job)
                if len(payload_bytes(item.payload)) > self._largest:
                    raise Kept(
                        f"its payload is larger than max_payload of the queue ({self._largest:,} bytes)"
                    )
            except Kept as why:
                self.moved.keep(str(why), entry)
            except OfAnotherQueue:
                pass
            else:
                usable.append(Found(entry, position, item))
        return usable
