"""The items of another system's entries: their ids, and the checks that an enqueue makes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from claimq.arguments import instant
from claimq.codec import check_name
from claimq.errors import InvalidName
from claimq.model import NewItem
from claimq.queue.batches import batch_of, batches_of
from claimq_cli.migration.layout import Entry, Job, Kept, Layout

_BAD_ID = (
    "its id has spaces or other than printable ASCII characters, or is longer than about 180; --new-ids gives it a "
    "new one"
)


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that can be imported, and its item. The item has no id if it gets a new one with the step that takes the
    entry."""

    entry: Entry
    item: NewItem


@dataclass(frozen=True, slots=True)
class EntryItems:
    """Makes items of entries. ``mark``: that of the source. ``largest``: the most bytes of a payload; None: any.

    The id of a job names its source: ``ID@DIGEST``, where the digest is made of the mark, the keys of the source, the
    id and the time at which the job was created. Two queues of one name, and a queue that counts from 1 again, have
    different ids.
    """

    layout: Layout
    client: str | None
    mark: str
    largest: int | None = None
    is_copy: bool = False
    new_ids: bool = False

    def found(self, entry: Entry, job: Job, position: int) -> Found:
        """The item of an entry at this position of its place. Raises Kept for all that an enqueue would refuse, and
        OfAnotherQueue."""
        item = self._item(entry, job)
        if item.id is not None:
            try:
                item = replace(item, id=self._own_id(item.id, entry, job))
            except InvalidName:
                if not self.new_ids:
                    raise Kept(_BAD_ID) from None
                item = replace(item, id=None)
                entry = replace(entry, is_renamed=True)
        if item.id is None and self.is_copy:
            item = replace(item, id=self._copied_id(entry, position))
        return Found(entry, self._checked(item))

    def taken(self, entry: Entry, job: Job, *, new_id: str) -> NewItem:
        """The item of an entry that was taken. ``new_id``: its id if it has none or gets a new one. Raises as
        :meth:`found`."""
        item = self._item(entry, job)
        is_new = entry.is_renamed or item.id is None
        try:
            item_id = new_id if is_new or item.id is None else self._own_id(item.id, entry, job)
        except InvalidName:
            raise Kept(_BAD_ID) from None
        return self._checked(replace(item, id=item_id))

    def _item(self, entry: Entry, job: Job) -> NewItem:
        return replace(self.layout.item(entry, job), client=self.client)

    def _own_id(self, name: str, entry: Entry, job: Job) -> str:
        """The id of a job as that of an item. Raises InvalidName."""
        check_name("id", name)
        parts = (self.mark, self.layout.own_key, name)
        source = b"\0".join([*(part.encode() for part in parts), self.layout.created_at(entry, job)])
        return check_name("id", f"{name}@{hashlib.sha256(source).hexdigest()[:12]}")

    def _copied_id(self, entry: Entry, position: int) -> str:
        """The id of an entry that stays, made of its place, its position and its value. So a repeated copy adds nothing
        while the source is unchanged."""
        where = f"{self.mark} {self.layout.places[entry.place].key} {position} ".encode()
        return f"copy-{hashlib.sha256(where + entry.value).hexdigest()[:32]}"

    def _checked(self, item: NewItem) -> NewItem:
        """The item, if an enqueue takes it. Raises Kept. The reasons have no values, so that there are few of them."""
        try:
            if item.at is not None:
                instant("at", item.at)
        except ValueError:
            raise Kept("its time is before 1970 or after the year 5138") from None
        try:
            size = batch_of([item]).size
        except (ValueError, TypeError):
            raise Kept("its payload cannot be stored, since its text has a lone surrogate") from None
        if self.largest is not None and size > self.largest:
            raise Kept(f"its payload is larger than max_payload of the queue ({self.largest:,} bytes)")
        return item


def calls_of(candidates: Sequence[Found]) -> Iterator[Sequence[Found]]:
    """The entries in portions whose items one atomic call enqueues."""
    start = 0
    for batch in batches_of([candidate.item for candidate in candidates]):
        yield candidates[start : start + len(batch.ids)]
        start += len(batch.ids)
