"""Routes of the web page that read, and the login. Those that change something are in `actions`."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import claimq
from claimq.concurrency.background_work import in_background
from claimq.errors import ClaimqError, InvalidName, StoreUnavailable
from claimq_cli.failed_actions import FailedAction
from claimq_cli.queue_reads import live_workers
from claimq_cli.web import plot, queue_pages
from claimq_cli.web.actions import Actions, checked_form, filter_of, read_form
from claimq_cli.web.login import COOKIE, Logins, Session
from claimq_cli.web.overview import SHOW, Selection, selected, warnings_of
from claimq_cli.web.payload import shown_payload
from claimq_cli.web.queues import Json, Queues, no_queue
from claimq_cli.web.rendering import HERE, page
from claimq_cli.web.runs import Runs
from claimq_cli.web.sampler import Sampler
from claimq_cli.web.samples import Samples, per_second, recent
from claimq_cli.web.security import LOGIN, STATIC, Guarded

_READS_AT_ONCE = 8
_COUNT_SECONDS = 3.0
"""After so long a dry run shows what it has counted."""
_STATIC = HERE / "static"
VERSION = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_STATIC.iterdir()))).hexdigest()[:12]
"""Part of the address of the static files, so that a browser keeps them until they change."""


class Site:
    """The web page over some queues. With ``logins`` users must log in; then they may also change items and queues if
    ``may_act`` is set.
    """

    def __init__(self, queues: Queues, logins: Logins | None = None, *, may_act: bool = False) -> None:
        self._queues = queues
        self._logins = logins
        self._may_act = may_act
        self._runs = Runs()
        self.sampler = Sampler(queues, Samples())
        self._reads = asyncio.Semaphore(_READS_AT_ONCE)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Takes samples inside the block."""
        sampling = in_background(self.sampler.run(), name="samples for the web page")
        try:
            yield
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
            await self._runs.close()

    def app(self, host: str) -> ASGIApp:
        """The ASGI app, for a server that listens on ``host``."""
        routes = [
            Route("/", self._overview),
            Route("/queues/{name}", self._summary),
            Route("/queues/{name}/item", self._item),
            Route("/queues/{name}/audit", self._audit),
            *(self._pages_of_users() if self._logins else []),
            Route("/queues/{name}/{state}", self._items),
            Mount(f"{STATIC}{VERSION}", StaticFiles(directory=_STATIC)),
        ]
        app = Starlette(routes=routes)
        app.add_exception_handler(ClaimqError, self._store_error)
        app.add_exception_handler(HTTPException, self._http_error)
        return Guarded(app, host, self._logins)

    def _pages_of_users(self) -> list[Route]:
        routes = [
            Route(LOGIN, self._log_in, methods=["GET", "POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]
        if self._may_act:
            routes += [
                Route("/queues/{name}/selected", self._selected),
                Route("/queues/{name}/runs/{run}", self._run),
                *Actions(self._queues, self._runs).routes(),
            ]
        return routes

    async def _overview(self, request: Request) -> Response:
        selection = Selection.of(request.query_params)
        if not self.sampler.samples.names and not self.sampler.problem:
            async with self._reads:
                await self.sampler.sample_all()
        rings = {name: self.sampler.samples.ring(name) for name in self.sampler.samples.names}
        latest = {name: ring.latest for name, ring in rings.items() if ring and ring.latest}
        names, part = selected(latest, selection)
        decisions = self._queues.decisions()
        rows = [await self._row(name, decisions.get(name, {})) for name in names]
        return self._page(
            request,
            "overview.html",
            rows=[row for row in rows if row is not None],
            page=part,
            page_link=selection.page_link,
            selection=selection,
            show=SHOW,
            queue_count=len(latest),
            server_warnings=self.sampler.warnings,
            problem=self.sampler.problem,
            unsampled_count=self.sampler.unsampled_count,
        )

    async def _row(self, name: str, decision: Json) -> Json | None:
        queue = self._queues.queue(name)
        if queue is None:
            return None
        async with self._reads:
            sample = await self.sampler.sample(name)
            if sample is None:
                return None
            workers = live_workers(await queue.workers(), sample.at)
        ring = self.sampler.samples.ring(name)
        samples = ring.samples() if ring else []
        ends = recent(samples)
        target = queue_pages.target_of(decision)
        return {
            "name": name,
            "sample": sample,
            "enqueued": per_second(*ends, "enqueued_count") if ends else None,
            "done": per_second(*ends, "done_count") if ends else None,
            "workers": len(workers),
            "busy_workers": sum(one.busy > 0 for one in workers),
            "wanted": decision.get("replicas"),
            "target": target,
            "warnings": warnings_of(sample, target, len(workers)),
            "spark": plot.spark_path(samples, 96, 22),
        }

    async def _summary(self, request: Request) -> Response:
        name, queue = self._queue_of(request)
        async with self._reads:
            sample = await self.sampler.sample(name)
            if sample is None:
                raise no_queue(name)
            decision = self._queues.decisions().get(name, {})
            values = await queue_pages.summary(queue, sample, self.sampler.samples.ring(name), decision)
        return self._page(request, "summary.html", name=name, tab="summary", **values)

    async def _items(self, request: Request) -> Response:
        name, queue = self._queue_of(request)
        state = str(request.path_params["state"])
        if state not in queue_pages.READ:
            raise HTTPException(404, "there is no such page")
        async with self._reads:
            if not await queue.exists():
                raise no_queue(name)
            values = await queue_pages.READ[state](queue, request.query_params)
        return self._page(request, f"{state}.html", name=name, tab=state, **values)

    async def _item(self, request: Request) -> Response:
        name, queue = self._queue_of(request)
        item_id = request.query_params.get("id", "")
        async with self._reads:
            found = await queue.find(item_id) if item_id else None
        if found is None:
            raise HTTPException(
                404, f"{name} has no item {item_id[:200]}: it is done, was removed, or never existed"
            )
        return self._page(
            request,
            "item.html",
            name=name,
            tab="",
            found=found,
            item=found.item,
            payload=shown_payload(found.item.payload),
        )

    async def _audit(self, request: Request) -> Response:
        name, queue = self._queue_of(request)
        async with self._reads:
            records = await queue.audit_log(queue_pages.MOST_RECORDS)
        return self._page(request, "audit.html", name=name, tab="audit", records=records)

    async def _selected(self, request: Request) -> Response:
        """The dry run of a change of failed items: how many pass the filter, the first of them, and the changes."""
        name, queue = self._queue_of(request)
        wanted = filter_of(request.query_params)
        action, stop = FailedAction(queue, wanted), asyncio.Event()
        asyncio.get_running_loop().call_later(_COUNT_SECONDS, stop.set)
        async with self._reads:
            await action.count(stop)
        return self._page(request, "selected.html", name=name, tab="failed", wanted=wanted, action=action)

    async def _run(self, request: Request) -> Response:
        name, _ = self._queue_of(request)
        run = self._runs.find(str(request.path_params["run"]), name)
        if run is None:
            raise HTTPException(
                404, "there is no such change; `claimq web` has forgotten it or was restarted"
            )
        return self._page(
            request, "run.html", name=name, tab="failed", run=run, run_id=request.path_params["run"]
        )

    async def _log_in(self, request: Request) -> Response:
        """The login page; a form with a known token begins a session and goes on to the page that was asked for."""
        fields = request.query_params if request.method != "POST" else await read_form(request)
        path = own_path(fields.get("next", ""))
        if request.method != "POST":
            return self._page(request, "login.html", next=path, problem="")
        cookie = self._logins.log_in(fields.get("token", "").strip()) if self._logins else None
        if cookie is None:
            return self._page(
                request, "login.html", status=403, next=path, problem="This token is not known."
            )
        response = RedirectResponse(path, 303)
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="lax")
        return response

    async def _log_out(self, request: Request) -> Response:
        await checked_form(request)
        if self._logins:
            self._logins.log_out(request.cookies.get(COOKIE, ""))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="lax")
        return response

    def _queue_of(self, request: Request) -> tuple[str, claimq.ReliableQueue]:
        name = str(request.path_params["name"])
        queue = self._queues.queue(name)
        if queue is None:
            raise no_queue(name)
        return name, queue

    def _page(self, request: Request, template: str, *, status: int = 200, **values: object) -> Response:
        session: Session | None = request.state.session
        # An open tab that updates itself leaves the notices to the page that its user opens.
        is_opened = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        return page(
            template,
            status=status,
            version=VERSION,
            user=session.user if session else "",
            form_token=session.form_token if session else "",
            may_act=self._may_act and session is not None,
            notices=session.take_notices() if session and is_opened else [],
            **values,
        )

    async def _store_error(self, request: Request, error: Exception) -> Response:
        status = (
            404 if isinstance(error, InvalidName) else 503 if isinstance(error, StoreUnavailable) else 500
        )
        return self._page(request, "error.html", status=status, message=str(error))

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status, text = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        return self._page(request, "error.html", status=status, message=text)


def own_path(path: str) -> str:
    """The path, if it is one of this page's; otherwise that of the first page."""
    is_own = path.startswith("/") and path.isprintable() and not set(path[1:2]) & {"/", "\\"}
    return path if is_own else "/"
