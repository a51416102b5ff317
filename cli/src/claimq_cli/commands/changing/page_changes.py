"""Changes through the API of a web page, which makes and records them."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

from claimq.model import State
from claimq_admin.errors import INTERRUPTED, UNAVAILABLE, USAGE, CommandError
from claimq_admin.remote.models import located_of
from claimq_admin.remote.page_api import Json, PageApi
from claimq_admin.selection.item_filter import fields_of
from claimq_admin.stop_signals import stopping
from claimq_admin.text import count
from claimq_cli.commands.changing.selected_changes import Result, confirm_removal, show_dry_run, show_result
from claimq_cli.commands.options.context import Context
from claimq_cli.commands.reading.item_selection import Selection
from claimq_cli.output import terminal
from claimq_cli.output.progress import Progress

_PAGES = {State.MAIN: "waiting", State.DELAYED: "delayed", State.FAILED: "failed"}
_PERIOD = 0.5


class PageChanges:
    """Changes of the items of a queue."""

    def __init__(self, context: Context, page: PageApi, name: str) -> None:
        self._context = context
        self._page = page
        self._name = name

    def name_on_page(self, name: str) -> str:
        """The name of another queue on the page."""
        return self._page.name_on_page(name)

    async def queue(self, action: str, **fields: str) -> Json:
        """Changes the queue itself; returns the answer of the page."""
        answer = await self._page.post(self._name, "", {"action": action, **fields})
        return {**answer, "message": str(answer["message"])}

    async def policy(self) -> Json:
        """The policy of the queue and its owner, as :func:`claimq_admin.changes.queue_actions.policy_of`."""
        return await self._page.get(self._name, "policy")

    async def item(self, item_id: str, action: str, **fields: str) -> str:
        """Changes an item in any state; returns what was done. CommandError if it is not possible."""
        document = await self._page.post(self._name, "item", {"id": item_id, "action": action, **fields})
        return str(document["message"])

    async def selected(
        self, chosen: Selection, action: str, past: str, *, yes: bool = True, **fields: str
    ) -> int:
        """Changes failed items by their ids, or all items that pass the filters, and prints the result; see
        :func:`carry_out`. ``yes``: a removal needs no confirmation.
        """
        if chosen.wanted.payload or chosen.limit:
            raise CommandError("--json and --limit are not possible with --web-api; use other filters", USAGE)
        path, form = _PAGES[chosen.state], {"action": action, **fields}
        if chosen.is_dry:
            return await self._dry_run(chosen, path)
        if chosen.ids:
            return show_result(self._context, self._name, past, await self._by_ids(chosen, path, form))
        if not yes:
            confirm_removal(self._name, chosen, "", is_given=False)
        if chosen.rate:
            form["rate"] = str(chosen.rate)
        started = await self._page.post(self._name, path, {**form, **fields_of(chosen.wanted)})
        return show_result(self._context, self._name, past, await self._ended(started["run"], past))

    async def _dry_run(self, chosen: Selection, path: str) -> int:
        query = {"state": path, **fields_of(chosen.wanted)}
        found = await self._page.get(self._name, "selected", **query)
        samples = [located_of(one) for one in found["samples"]]
        show_dry_run(self._context, self._name, chosen.state, found["matching"], samples)
        if found["looked_at"] < found["total"]:
            terminal.say_error(
                f"the page has counted only {found['looked_at']:,} of {found['total']:,} items; a change looks at all"
            )
        return 0

    async def _by_ids(self, chosen: Selection, path: str, form: dict[str, str]) -> Result:
        missing: list[str] = []
        problems: list[str] = []
        for one in dict.fromkeys(chosen.ids):
            document = await self._page.post(self._name, path, {**form, "id": one})
            missing += document["missing"]
            problems += document["problems"]
        changed = len(dict.fromkeys(chosen.ids)) - len(missing) - len(problems)
        return Result(changed, missing, problems, len(problems))

    async def _ended(self, run: str, past: str) -> Result:
        """Waits for the end of a change, which a signal stops."""
        progress = Progress(is_shown=sys.stderr.isatty())
        path = f"runs/{run}"
        async with stopping() as stop:
            while True:
                found: Json = await self._page.get(self._name, path)
                if found["state"] not in ("running", "stopping"):
                    break
                progress.show(
                    f"{found['looked_at']:,} of {found['total']:,} read, {found['changed']:,} {past}"
                )
                if stop.is_set() and found["state"] == "running":
                    await self._page.post(self._name, path, {"action": "stop"})
                with suppress(TimeoutError):
                    async with asyncio.timeout(_PERIOD):
                        await (asyncio.sleep(_PERIOD) if stop.is_set() else stop.wait())
        progress.clear()
        if found["problem"]:
            raise CommandError(
                f"the change ended after {count(found['changed'])}: {found['problem']}", UNAVAILABLE
            )
        if found["state"] == "stopped":
            raise CommandError(f"interrupted after {count(found['changed'])}", INTERRUPTED)
        return Result(found["changed"], [], found["problems"], found["problem_count"])


def changes_of(context: Context, name: str) -> PageChanges | None:
    """The changes of a queue through the page of --web-api; None without this option."""
    return None if context.page is None else PageChanges(context, context.page, name)
