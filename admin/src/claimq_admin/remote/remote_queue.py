"""A queue that is read and filled through the API of a web page, with the methods of the library."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from claimq.arguments import choice
from claimq.errors import ItemTooLarge
from claimq.model import (
    AuditRecord,
    ClientInfo,
    Enqueued,
    Item,
    Located,
    NewItem,
    RemovedItem,
    Snapshot,
    State,
    WorkerInfo,
)
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq_admin.errors import REFUSED, UNAVAILABLE, CommandError
from claimq_admin.remote import models
from claimq_admin.remote.page_api import Json, NotTaken, PageApi

T = TypeVar("T")
_MOST_ITEMS, _MOST_BYTES = 1000, 4 * 1024 * 1024 - 1024
"""Of a request with items. The page refuses larger ones."""


class TooLargeForPage(NotTaken):
    """An item is too large for a request to the page. Nothing was sent."""

    def __init__(self, index: int) -> None:
        super().__init__(
            "the web page takes items of about 3 MB at most; enqueue larger ones where the server can be reached",
            index,
        )


class RemoteQueue:
    """Reads of a queue, and new items. CommandError if the page refuses."""

    def __init__(self, page: PageApi, name: str) -> None:
        self._page = page
        self.name = name

    async def status(self) -> tuple[Snapshot, list[WorkerInfo]]:
        """Its snapshot and its live workers."""
        document = await self._page.get(self.name, "status")
        return models.snapshot_of(document), list(map(models.worker_of, document["workers"]))

    async def snapshot(self) -> Snapshot:
        """As the library's; ``seq`` and ``due_soon`` are 0."""
        return (await self.status())[0]

    async def length(self, state: State | str = State.MAIN) -> int:
        """As the library's."""
        return (await self.snapshot()).lengths[choice("state", state, State)]

    async def client_length(self, client: str) -> int:
        """As the library's."""
        (found,) = (await self._page.get(self.name, "clients", client=client))["clients"]
        return int(found["length"])

    async def clients(self) -> list[ClientInfo]:
        """As the library's."""
        return list(map(models.client_of, (await self._page.get(self.name, "clients"))["clients"]))

    async def workers(self) -> list[WorkerInfo]:
        """As the library's."""
        return list(map(models.worker_of, (await self._page.get(self.name, "workers"))["workers"]))

    async def peek(self, count: int = 1, *, offset: int = 0, client: str | None = None) -> list[Item]:
        """As the library's."""
        found = await self._pages("items", models.located_of, count, offset, client=client)
        return [one.item for one in found]

    async def items(self, state: State | str, count: int = 100, *, offset: int = 0) -> list[Located]:
        """As the library's."""
        wanted = choice("state", state, State).value
        return await self._pages("items", models.located_of, count, offset, state=wanted)

    async def failed_items(self, count: int = 100, *, offset: int = 0) -> list[Located]:
        """As the library's."""
        return await self.items(State.FAILED, count, offset=offset)

    async def find(self, id: str) -> Located | None:  # noqa: A002 - as in the library
        """As the library's."""
        return self._found(await self._page.get(self.name, "item", id=id))

    async def failed_item(self, name: str) -> Located | None:
        """As the library's."""
        return self._found(await self._page.get(self.name, "item", id=name, state="failed"))

    async def removed_items(self, count: int = 100, *, offset: int = 0) -> list[RemovedItem]:
        """As the library's."""
        document = await self._page.get(self.name, "removed", limit=count, offset=offset)
        return list(map(models.removed_of, document["items"]))

    async def audit_log(self, count: int = 100, *, offset: int = 0) -> list[AuditRecord]:
        """As the library's."""
        document = await self._page.get(self.name, "audit", limit=count, offset=offset)
        return list(map(models.record_of, document["records"]))

    async def enqueue_many(self, items: Sequence[NewItem]) -> Enqueued:
        """As the library's, in requests of up to 1,000 items or 4 MiB. After an error, the items of earlier requests
        are stored; with the exit code UNAVAILABLE those of the last one may be too. TooLargeForPage before the first
        request."""
        done = Enqueued((), 0)
        for part in _requests([json.dumps(models.document_of(one)) for one in items]):
            more = await self._enqueue(part)
            done = Enqueued(done.ids + more.ids, more.length, done.duplicates + more.duplicates)
        return done

    async def enqueue_some(self, items: Sequence[NewItem]) -> Enqueued:
        """Adds as many of the first items as one request takes: all that the result names, and none after an error.
        TooLargeForPage if one of all items is too large for any request."""
        return await self._enqueue(next(_requests([json.dumps(models.document_of(one)) for one in items])))

    async def _enqueue(self, part: list[str]) -> Enqueued:
        try:
            done = models.enqueued_of(await self._page.enqueue(self.name, part))
        except (ItemTooLarge, NotTaken) as error:
            if 0 <= error.index < len(part):
                raise
            raise CommandError(f"the web page: {error}", REFUSED) from error
        if len(done.ids) != len(part):
            raise CommandError("the web page names another number of items than were sent", UNAVAILABLE)
        return done

    @staticmethod
    def _found(document: Json) -> Located | None:
        return models.located_of(document["found"]) if document["found"] else None

    async def _pages(
        self, path: str, read: Callable[[Json], T], count: int, offset: int, **query: object
    ) -> list[T]:
        """So many items, in several requests where they are large."""
        found: list[T] = []
        with BoundedRead(path, DEFAULT_BOUNDS, parses=False):
            while len(found) < count:
                limit, begin = count - len(found), offset + len(found)
                page = (await self._page.get(self.name, path, limit=limit, offset=begin, **query))["items"]
                if not page:
                    break
                found += map(read, page)
        return found


def _requests(documents: Sequence[str]) -> Iterator[list[str]]:
    """Divides items among requests. TooLargeForPage for one that is too large for any, before the first is sent."""
    for index, one in enumerate(documents):
        if len(one) > _MOST_BYTES:
            raise TooLargeForPage(index)
    part: list[str] = []
    size = 0
    for one in documents:
        if part and (len(part) == _MOST_ITEMS or size + len(one) > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one) + 2
    if part:
        yield part
