"""Routes of the web page that read. The login is in `login_pages`, those that change something are in `actions`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import claimq
from claimq.concurrency.background_work import spawn
from claimq.errors import ClaimqError
from claimq.model import WorkerInfo
from claimq_admin.changes.item_actions import CHANGEABLE
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.reads.decisions import waits_text
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import live_workers, workers_of
from claimq_admin.selection.item_filter import fields_of
from claimq_admin.selection.selected_items import SelectedItems
from claimq_kubernetes.port import part
from claimq_web import api
from claimq_web.changes.actions import Actions
from claimq_web.changes.filter_forms import filter_of
from claimq_web.changes.runs import Runs
from claimq_web.curves import plot
from claimq_web.curves.curves import latest_rates
from claimq_web.curves.overview import (
    SHOW,
    Selection,
    grouped,
    namespaces_of,
    selected,
)
from claimq_web.curves.samples import Sample, Samples
from claimq_web.pages_of_users import STATIC_FILES, VERSION, PagesOfUsers
from claimq_web.payload import shown_payload
from claimq_web.queues import queue_pages
from claimq_web.queues.limited_reads import LimitedReads
from claimq_web.queues.queues import Queues
from claimq_web.queues.sampler import Sampler
from claimq_web.rendering import HEALTHY, answer, no_queue
from claimq_web.users.access import Access, Right, SameForAll
from claimq_web.users.forms import fields_once
from claimq_web.users.login import Logins, ProxyHeaders
from claimq_web.users.login_pages import LoginPages
from claimq_web.users.security import HEALTH, METRICS, STATIC, Guarded

_ROW_SECONDS = 5.0
_COUNT_SECONDS = 3.0
"""After so long a dry run shows what it has counted."""


class Site:
    """The web page over some queues.

    With ``logins`` users must log in, or come through ``proxy``; then they may also change items and queues if
    ``may_act`` is set. ``access``: what each of them may do; by default all may do the same. ``metrics``: renders the
    metrics of the queues, with their content type, for those who may use the API.
    """

    def __init__(
        self,
        queues: Queues,
        logins: Logins | None = None,
        *,
        may_act: bool = False,
        access: Access | None = None,
        proxy: ProxyHeaders | None = None,
        metrics: Callable[[], Awaitable[tuple[bytes, str]]] | None = None,
    ) -> None:
        self._queues = queues
        self._pages = PagesOfUsers(queues, has_login_page=proxy is None)
        self._logins = logins
        self._proxy = proxy
        self._may_act = may_act
        self._metrics = metrics
        self._access = access or SameForAll(may_act=may_act)
        self._runs = Runs()
        self.sampler = Sampler(queues, Samples())
        self._reads = LimitedReads(queues)
        self.actions = Actions(queues, self._access, self._runs, self._reads.large)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Takes samples inside the block."""
        sampling = spawn(self.sampler.run(), name="samples for the web page")
        try:
            yield
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
            await self._runs.close()

    def app(self, *hosts: str) -> ASGIApp:
        """The ASGI app. ``hosts``: the address that its server listens on, and other names by which it is opened."""
        routes: list[BaseRoute] = [
            Route(HEALTH, HEALTHY, methods=["GET"]),
            *self._metrics_pages(),
            Route("/", self._overview),
            *self._login_pages(),
            Route("/queues/{name}", self._summary),
            Route("/queues/{name}/item", self._item),
            Route("/queues/{name}/audit", self._audit),
            *self._changes(),
            api.routes(self._names, self._read, self._changes(of_programs=True)),
            Route("/queues/{name}/{state}", self._items),
            Mount(f"{STATIC}{VERSION}", StaticFiles(directory=STATIC_FILES)),
        ]
        return self.guarded(routes, hosts)

    def guarded(self, routes: list[BaseRoute], hosts: tuple[str, ...]) -> ASGIApp:
        """The app with these routes, behind the checks of each request."""
        return Guarded(self._pages.app(routes), hosts, self._logins, self._proxy)

    def _metrics_pages(self) -> list[Route]:
        render = self._metrics
        if render is None:
            return []

        async def metrics(request: Request) -> Response:  # noqa: ARG001 - as Starlette calls it
            body, content_type = await render()
            return Response(body, headers={"content-type": content_type})

        return [Route(METRICS, metrics)]

    def _login_pages(self) -> list[Route]:
        if self._logins is None or self._proxy is not None:
            return []
        return LoginPages(self._logins, self._pages.page).routes()

    def _changes(self, *, of_programs: bool = False) -> list[BaseRoute]:
        if self._logins is None or not self._may_act:
            return []
        return [
            Route("/queues/{name}/selected", self._selected),
            Route("/queues/{name}/runs/{run}", self._run),
            *(self.actions.routes_of_programs() if of_programs else []),
            *self.actions.routes(),
        ]

    async def _names(self, request: Request) -> list[str]:
        names = [*await self._queues.names()]
        visible = await self._access.visible(request.state.session, names)
        return [name for name in names if name in visible]

    async def _read(self, request: Request, right: Right, read: api.Read) -> Json:
        """What a read of the API finds."""
        name, queue = await self._queue_of(request, right)
        call = partial(read, queue, request.query_params, self._queues.decisions().get(name, {}))
        return await self._reads.read(name, request.state.session, call, existing=queue)

    async def _overview(self, request: Request) -> Response:
        selection = Selection.of(request.query_params)
        if not self.sampler.samples.names and not self.sampler.problem and not self.sampler.problems:
            async with self._reads.altogether:
                await self.sampler.sample_all()
        problems = {**self._queues.unreadable(), **self.sampler.problems}
        rings = {name: self.sampler.samples.ring(name) for name in self.sampler.samples.names}
        visible = await self._access.visible(request.state.session, [*{**rings, **problems}])
        latest = {
            name: ring.latest
            for name, ring in rings.items()
            if name in visible and name not in problems and ring and ring.latest
        }
        decisions = self._queues.decisions()
        noted = queue_pages.noted(self._queues, rings, latest, decisions) if selection.sort == "notes" else ()
        names, part = selected(latest, selection, noted)
        results = await asyncio.gather(
            *(self._try_row(request, name, decisions.get(name, {})) for name in names)
        )
        rows = [row for outcome in results if not isinstance(outcome, ClaimqError) for row in outcome]
        errors = {name: why for name, why in zip(names, results, strict=True) if isinstance(why, ClaimqError)}
        if errors and not rows:
            raise next(iter(errors.values()))
        problems |= {name: str(error) for name, error in errors.items()}
        return self._pages.page(
            request,
            "overview.html",
            rows=rows,
            page=part,
            page_link=selection.page_link,
            selection=selection,
            namespaces=namespaces_of(latest),
            show=SHOW,
            queue_count=len(latest),
            server_warnings=self.sampler.warnings,
            problem=self.sampler.problem or self._queues.problem,
            when_empty=self._queues.when_empty,
            unreadable=grouped({name: why for name, why in problems.items() if name in visible}),
            unsampled_count=self.sampler.unsampled_count,
        )

    async def _try_row(self, request: Request, name: str, decision: Json) -> list[Json] | ClaimqError:
        try:
            return await self._row(request, name, decision)
        except ClaimqError as error:
            return self._queues.shown(error)

    async def _row(self, request: Request, name: str, decision: Json) -> list[Json]:
        """The row of a queue; none if it does not exist any more."""
        queue = self._queues.queue(name)
        if queue is None:
            return []

        async def read() -> tuple[Sample | None, list[WorkerInfo]]:
            sample = await self.sampler.sample(name)
            return sample, [] if sample is None else live_workers(await workers_of(queue), sample.at)

        sample, workers = await self._reads.read(name, request.state.session, read, _ROW_SECONDS)
        if sample is None:
            return []
        ring = self.sampler.samples.ring(name)
        samples = queue_pages.samples_of(sample, ring)
        row = {
            "name": name,
            "sample": sample,
            "rates": latest_rates(samples),
            "workers": len(workers),
            "busy_workers": sum(worker.busy > 0 for worker in workers),
            "wanted": decision.get("replicas"),
            "ready": part(self._queues.status(name), "workers").get("ready"),
            "target": queue_pages.target_of(decision),
            "notes": queue_pages.notes(self._queues, name, ring, decision, len(workers)),
            "spark": plot.spark_path(samples, 96, 22),
        }
        return [row]

    async def _summary(self, request: Request) -> Response:
        name, queue = await self._queue_of(request, Right.LOOK)

        async def read() -> Json:
            sample = await self.sampler.sample(name)
            if sample is None:
                raise no_queue(name)
            decision = self._queues.decisions().get(name, {})
            ring, command = self.sampler.samples.ring(name), partial(self._queues.command, name)
            return await queue_pages.summary(queue, sample, ring, decision, command)

        values = await self._reads.read(name, request.state.session, read)
        status = self._queues.status(name)
        values |= {"resource": status, "ready_workers": queue_pages.ready_workers(status)}
        values |= {"events": await self._queues.events(name)}
        return await self._queue_page(request, "summary.html", name, "summary", **values)

    async def _items(self, request: Request) -> Response:
        name, queue = await self._queue_of(request)
        state = str(request.path_params["state"])
        if state not in queue_pages.READ:
            raise HTTPException(404, "there is no such page")
        call = partial(queue_pages.READ[state], queue, request.query_params)
        values = await self._reads.read(name, request.state.session, call, existing=queue)
        return await self._queue_page(request, f"{state}.html", name, state, **values)

    async def _item(self, request: Request) -> Response:
        name, queue = await self._queue_of(request)
        item_id = request.query_params.get("id", "")
        everywhere = "all" in request.query_params
        find = partial(queue.where, item_id, everywhere=everywhere)
        where = await self._reads.read(name, request.state.session, find) if item_id else None
        if where is None:
            raise HTTPException(
                404, f"{name} has no item {item_id[:200]}: it is done, was removed, or never existed"
            )
        located = where.located
        values = {"found": located, "item": located.item, "payload": shown_payload(located.item.payload)}
        values |= {"where": where, "waits": waits_text(where, self._queues.decisions().get(name, {}))}
        return await self._queue_page(request, "item.html", name, "", **values)

    async def _audit(self, request: Request) -> Response:
        name, queue = await self._queue_of(request)
        records = await self._reads.read(
            name, request.state.session, partial(queue.audit_log, queue_pages.MOST_RECORDS)
        )
        return await self._queue_page(request, "audit.html", name, "audit", records=records)

    async def _selected(self, request: Request) -> Response:
        """The dry run of a change: how many items of a state pass the filter, the first of them, and the changes."""
        name, queue = await self._queue_of(request)
        tab = request.query_params.get("state", "failed")
        if tab not in CHANGEABLE:
            raise HTTPException(404, "there is no such page")
        selector = filter_of(fields_once(request.query_params.multi_items()))

        async def count() -> SelectedItems:
            items = SelectedItems(admin_of(queue, ""), selector, state=CHANGEABLE[tab])
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(_COUNT_SECONDS, stop.set)
            await items.count(stop)
            return items

        items = await self._reads.read(name, request.state.session, count)
        if request.state.is_api:
            return answer(api.selected(items))
        fields = fields_of(selector)
        return await self._queue_page(request, "selected.html", name, tab, selected=items, fields=fields)

    async def _run(self, request: Request) -> Response:
        name, _ = await self._queue_of(request)
        run = self._runs.find(str(request.path_params["run"]), name)
        if run is None:
            raise HTTPException(
                404, "there is no such change; `claimq web` has forgotten it or was restarted"
            )
        run_id = request.path_params["run"]
        if request.state.is_api:
            return answer(api.progress(run))
        tab = next(tab for tab, state in CHANGEABLE.items() if state is run.items.state)
        return await self._queue_page(request, "run.html", name, tab, run=run, run_id=run_id)

    async def _queue_of(
        self, request: Request, right: Right = Right.READ
    ) -> tuple[str, claimq.ReliableQueue]:
        """The queue of a request, if its user has the right on it."""
        name, session = str(request.path_params["name"]), request.state.session
        if not await self._access.may(session, Right.LOOK, name):
            raise no_queue(name)
        if right is not Right.LOOK and not await self._access.may(session, right, name):
            raise HTTPException(403, f"you may see the numbers of {name[:200]}, but not its items")
        queue = self._queues.queue(name)
        if queue is None:
            why = self._queues.unreadable().get(name)
            raise no_queue(name) if why is None else HTTPException(503, f"{name} cannot be read: {why}")
        return name, queue

    async def _queue_page(
        self, request: Request, template: str, name: str, tab: str, **values: Any
    ) -> Response:
        session = request.state.session
        may_read, may_change, may_suspend, may_drain = [
            await self._access.may(session, right, name)
            for right in (Right.READ, Right.CHANGE, Right.SUSPEND, Right.DRAIN)
        ]
        values |= {"may_read": may_read, "may_act": may_change}
        values |= {"may_suspend": may_suspend, "may_drain": may_drain}
        values |= {"command": partial(self._queues.command, name)}
        return self._pages.page(request, template, name=name, tab=tab, **values)
