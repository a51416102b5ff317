"""A queue that is read and filled through the API of a web page, with the methods of the library."""

from __future__ import annotations

import json
from collections.abc import Sequence

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
from claimq.queue.batches import batches_of
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq_admin.errors import REFUSED, UNAVAILABLE, CommandError, NotTaken
from claimq_admin.remote.models import document_of, item_of, located_of, snapshot_of, value_of
from claimq_admin.remote.page_api import Json, PageApi

_MOST_BYTES = 4 * 1024 * 1024 - 1024
"""Of a request with items. The page refuses larger ones."""
_TOO_LARGE = (
    "the web page takes items of about 3 MB at most; enqueue larger ones where the server can be reached"
)


class RemoteQueue:
    """Reads of a queue, and new items, as in the library. CommandError if the page refuses."""

    def __init__(self, page: PageApi, name: str) -> None:
        self._page = page
        self.name = name

    async def status(self) -> tuple[Snapshot, list[WorkerInfo]]:
        """Its snapshot and its live workers."""
        document = await self._get("status")
        return snapshot_of(document), [value_of(WorkerInfo, worker) for worker in document["workers"]]

    async def snapshot(self) -> Snapshot:
        """``seq`` and ``due_soon`` are 0."""
        return (await self.status())[0]

    async def length(self, state: State | str = State.MAIN) -> int:
        """How many items are in a state."""
        return (await self.snapshot()).lengths[choice("state", state, State)]

    async def client_length(self, client: str) -> int:
        """How many items of a client are in main."""
        (info,) = await self.clients(client)
        return info.length

    async def clients(self, client: str | None = None) -> list[ClientInfo]:
        """The clients with items in main, or one client."""
        return [
            value_of(ClientInfo, entry) for entry in (await self._get("clients", client=client))["clients"]
        ]

    async def workers(self) -> list[WorkerInfo]:
        """Its workers."""
        return [value_of(WorkerInfo, worker) for worker in (await self._get("workers"))["workers"]]

    async def peek(self, count: int = 1, *, offset: int = 0, client: str | None = None) -> list[Item]:
        """The next items."""
        return [located.item for located in await self._items(count, offset, client=client)]

    async def items(self, state: State | str, count: int = 100, *, offset: int = 0) -> list[Located]:
        """Items of a state."""
        return await self._items(count, offset, state=choice("state", state, State).value)

    async def failed_items(self, count: int = 100, *, offset: int = 0) -> list[Located]:
        """Failed items."""
        return await self.items(State.FAILED, count, offset=offset)

    async def find(self, id: str, **query: str) -> Located | None:  # noqa: A002 - as in the library
        """An item in any state."""
        document = (await self._get("item", id=id, **query))["found"]
        return located_of(document) if document else None

    async def failed_item(self, name: str) -> Located | None:
        """A failed item."""
        return await self.find(name, state="failed")

    async def removed_items(self, count: int = 100, *, offset: int = 0) -> list[RemovedItem]:
        """The log of removed items."""
        documents = (await self._get("removed", limit=count, offset=offset))["items"]
        return [value_of(RemovedItem, document, item=item_of(document["item"])) for document in documents]

    async def audit_log(self, count: int = 100, *, offset: int = 0) -> list[AuditRecord]:
        """The audit log."""
        documents = (await self._get("audit", limit=count, offset=offset))["records"]
        return [value_of(AuditRecord, document) for document in documents]

    async def enqueue_many(self, items: Sequence[NewItem]) -> Enqueued:
        """Adds items, in a request for each call of the library. After an error, the items of earlier requests are
        stored; with the exit code UNAVAILABLE those of the last one may be too. NotTaken before the first request for
        an item that is too large."""
        documents = [json.dumps(document_of(item)) for item in items]
        for index, document in enumerate(documents):
            if len(document) > _MOST_BYTES:
                raise NotTaken(_TOO_LARGE, index)
        done = Enqueued((), 0)
        for batch in batches_of(items):
            begin = len(done.ids)
            more = await self._enqueue(documents[begin : begin + len(batch.ids)])
            done = Enqueued(done.ids + more.ids, more.length, done.duplicates + more.duplicates)
        return done

    async def _enqueue(self, part: list[str]) -> Enqueued:
        try:
            reply = await self._page.enqueue(self.name, part)
        except (ItemTooLarge, NotTaken) as error:
            if 0 <= error.index < len(part):
                raise
            raise CommandError(f"the web page: {error}", REFUSED) from error
        done = Enqueued(tuple(reply["ids"]), reply["length"], tuple(reply["duplicates"]))
        if len(done.ids) != len(part):
            raise CommandError("the web page names another number of items than were sent", UNAVAILABLE)
        return done

    async def _get(self, path: str, **query: object) -> Json:
        return await self._page.get(self.name, path, **query)

    async def _items(self, count: int, offset: int, **query: object) -> list[Located]:
        """So many items, in several requests where they are large."""
        items: list[Located] = []
        with BoundedRead("items", DEFAULT_BOUNDS, parses=False):
            while len(items) < count:
                limit, begin = count - len(items), offset + len(items)
                page = (await self._get("items", limit=limit, offset=begin, **query))["items"]
                if not page:
                    break
                items += map(located_of, page)
        return items
