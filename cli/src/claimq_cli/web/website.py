"""Routes of the web page. All of them only read; requests that change something would belong in a separate module."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

import claimq
from claimq.background_work import in_background
from claimq.errors import ClaimqError, InvalidName, StoreUnavailable
from claimq_cli.queue_reads import live_workers
from claimq_cli.web import plot, queue_pages
from claimq_cli.web.overview import SHOW, Selection, selected, warnings_of
from claimq_cli.web.payload import shown_payload
from claimq_cli.web.queues import Json, Queues
from claimq_cli.web.rendering import HERE, page
from claimq_cli.web.sampler import Sampler
from claimq_cli.web.samples import Samples, per_second, recent
from claimq_cli.web.security import STATIC, Guarded

_READS_AT_ONCE = 8
_STATIC = HERE / "static"
VERSION = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(_STATIC.iterdir()))).hexdigest()[:12]
"""Part of the address of the static files, so that a browser keeps them until they change."""


class Site:
    """The web page over some queues."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
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

    def app(self, host: str) -> ASGIApp:
        """The ASGI app, for a server that listens on ``host``."""
        routes = [
            Route("/", self._overview),
            Route("/queues/{name}", self._summary),
            Route("/queues/{name}/item", self._item),
            Route("/queues/{name}/{state}", self._items),
            Mount(f"{STATIC}{VERSION}", StaticFiles(directory=_STATIC)),
        ]
        app = Starlette(routes=routes)
        app.add_exception_handler(ClaimqError, self._store_error)
        app.add_exception_handler(HTTPException, self._http_error)
        return Guarded(app, host)

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
                raise _no_queue(name)
            decision = self._queues.decisions().get(name, {})
            values = await queue_pages.summary(queue, sample, self.sampler.samples.ring(name), decision)
        return self._page("summary.html", name=name, tab="summary", **values)

    async def _items(self, request: Request) -> Response:
        name, queue = self._queue_of(request)
        state = str(request.path_params["state"])
        if state not in queue_pages.READ:
            raise HTTPException(404, "there is no such page")
        async with self._reads:
            if not await queue.exists():
                raise _no_queue(name)
            values = await queue_pages.READ[state](queue, request.query_params)
        return self._page(f"{state}.html", name=name, tab=state, **values)

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
            "item.html",
            name=name,
            tab="",
            found=found,
            item=found.item,
            payload=shown_payload(found.item.payload),
        )

    def _queue_of(self, request: Request) -> tuple[str, claimq.ReliableQueue]:
        name = str(request.path_params["name"])
        queue = self._queues.queue(name)
        if queue is None:
            raise _no_queue(name)
        return name, queue

    def _page(self, template: str, *, status: int = 200, **values: object) -> Response:
        return page(template, status=status, version=VERSION, **values)

    async def _store_error(self, _: Request, error: Exception) -> Response:
        status = (
            404 if isinstance(error, InvalidName) else 503 if isinstance(error, StoreUnavailable) else 500
        )
        return self._page("error.html", status=status, message=str(error))

    async def _http_error(self, _: Request, error: Exception) -> Response:
        status, text = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        return self._page("error.html", status=status, message=text)


def _no_queue(name: str) -> HTTPException:
    return HTTPException(404, f"there is no queue {name[:200]} on this server")
