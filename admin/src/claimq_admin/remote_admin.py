"""Acts on a queue through the API of a web page, which makes and records the changes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from claimq.internals.owner import Owner, read_owner
from claimq.model import State
from claimq_admin.changes.item_change import CHANGEABLE, ItemChange, Selected
from claimq_admin.errors import UNAVAILABLE, USAGE, CommandError
from claimq_admin.remote.models import located_of
from claimq_admin.remote.page_api import Json, PageApi
from claimq_admin.remote.remote_queue import RemoteQueue
from claimq_admin.selection.item_filter import ItemFilter, fields_of
from claimq_admin.text import count

_PERIOD = 0.5
"""Seconds between two requests for the progress of a change."""


@dataclass(frozen=True, slots=True)
class RemoteAdmin:
    """See :class:`claimq_admin.queue_admin.QueueAdmin`. ``target``: the queue on the page that items are moved to."""

    page: PageApi
    name: str
    target: str = ""

    @property
    def queue(self) -> RemoteQueue:
        """Reads of the queue, and new items."""
        return RemoteQueue(self.page, self.name)

    async def owner(self) -> Owner | None:
        """The owner of the queue."""
        return read_owner((await self.policy())["owner"] or "")

    async def policy(self) -> Json:
        """The policy of the queue, and its owner."""
        return await self.page.get(self.name, "policy")

    async def change_queue(self, action: str, **fields: str) -> Json:
        """Changes the queue itself."""
        return await self.page.post(self.name, "", {"action": action, **fields})

    async def change_item(self, item_id: str, change: ItemChange) -> str:
        """Changes an item in any state."""
        done = await self.page.post(self.name, "item", {"id": item_id, **self.form(change)})
        return str(done["message"])

    def selected(
        self, selector: ItemFilter, state: State, limit: int | None = None, rate: float | None = None
    ) -> Selected:
        """The items that pass a filter. CommandError for what a page does not take."""
        if selector.payload or limit:
            raise CommandError("--json and --limit are not possible with --web-api; use other filters", USAGE)
        path = next(path for path, changeable in CHANGEABLE.items() if changeable is state)
        return _RemoteItems(self, path, fields_of(selector), {} if rate is None else {"rate": str(rate)})

    def form(self, change: ItemChange) -> dict[str, str]:
        """The form of a change."""
        return change.fields() | ({"target": self.target} if self.target else {})


@dataclass
class _RemoteItems(Selected):
    """Items on a page of a queue."""

    admin: RemoteAdmin
    path: str
    wanted: Mapping[str, str]
    rate: Mapping[str, str]

    async def count(self, stop: asyncio.Event) -> None:  # noqa: ARG002 - the page stops after seconds
        """See :class:`Selected`."""
        selected = await self.admin.page.get(self.admin.name, "selected", state=self.path, **self.wanted)
        self.matched, self.looked_at, self.total = (
            selected["matching"],
            selected["looked_at"],
            selected["total"],
        )
        self.samples = list(map(located_of, selected["samples"]))

    async def run(self, change: ItemChange, stop: asyncio.Event) -> None:
        """See :class:`Selected`."""
        page, name = self.admin.page, self.admin.name
        form = {**self.admin.form(change), **self.rate, **self.wanted}
        run = f"runs/{(await page.post(name, self.path, form))['run']}"
        while (progress := await page.get(name, run))["state"] in ("running", "stopping"):
            self._see(progress)
            if stop.is_set() and progress["state"] == "running":
                await page.post(name, run, {"action": "stop"})
            with suppress(TimeoutError):
                async with asyncio.timeout(_PERIOD):
                    await (asyncio.sleep(_PERIOD) if stop.is_set() else stop.wait())
        self._see(progress)
        if progress["problem"]:
            raise CommandError(
                f"the change ended after {count(self.changed)}: {progress['problem']}", UNAVAILABLE
            )
        if progress["state"] == "stopped":
            stop.set()

    async def run_on(self, names: Iterable[str], change: ItemChange) -> list[str]:
        """See :class:`Selected`."""
        missing: list[str] = []
        for item_id in dict.fromkeys(names):
            done = await self.admin.page.post(
                self.admin.name, self.path, {**self.admin.form(change), "id": item_id}
            )
            missing += done["missing"]
            self.problems += done["problems"]
            self.changed += not (done["missing"] or done["problems"])
        self.problem_count = len(self.problems)
        return missing

    def _see(self, progress: Json) -> None:
        self.looked_at, self.total, self.changed = (
            progress["looked_at"],
            progress["total"],
            progress["changed"],
        )
        self.problems, self.problem_count = progress["problems"], progress["problem_count"]
        self.note()
