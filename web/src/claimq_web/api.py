"""The JSON API of the page, for programs: the same reads, changes and permissions, with a token of the user instead of
a session of a browser.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

import claimq
from claimq.arguments import choice
from claimq.model import State
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.reads import documents
from claimq_admin.reads.decisions import waits_text
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import items_within_bytes, status_of, workers_and_live
from claimq_admin.selection.selected_items import SelectedItems
from claimq_web.changes.runs import Run
from claimq_web.rendering import answer
from claimq_web.users.access import Right
from claimq_web.users.security import API

Query = Mapping[str, str]
Read = Callable[[claimq.ReliableQueue, Query, Json], Awaitable[Json]]
"""Of a queue, the query of the request, and the scaling decision about the queue."""
_MOST = 1000
_ONLY_READS = "this page changes nothing; start it with --actions (web.actions of the chart)"


async def _status(queue: claimq.ReliableQueue, *_: object) -> Json:
    return documents.status("", *await status_of(queue))


async def _workers(queue: claimq.ReliableQueue, *_: object) -> Json:
    return {"workers": documents.workers_of(*await workers_and_live(queue))}


async def _clients(queue: claimq.ReliableQueue, *_: object) -> Json:
    return {"clients": [asdict(entry) for entry in await queue.clients()]}


async def _items(queue: claimq.ReliableQueue, query: Query, *_: object) -> Json:
    """At most ``limit`` items of a state after the first ``offset``, fewer if they are large; none at the end."""
    count, offset = _span(query)
    items = await items_within_bytes(queue, _state(query), offset, offset + count, query.get("client"))
    return {"items": [documents.located(item) for item in items]}


async def _item(queue: claimq.ReliableQueue, query: Query, decision: Json) -> Json:
    where = await queue.where(query.get("id", ""), everywhere="all" in query)
    return {"found": where and documents.where(where, waits_text(where, decision))}


async def _removed(queue: claimq.ReliableQueue, query: Query, *_: object) -> Json:
    count, offset = _span(query)
    entries = await queue.removed_items(count, offset=offset)
    return {"items": [documents.removed(entry) for entry in entries]}


async def _audit(queue: claimq.ReliableQueue, query: Query, *_: object) -> Json:
    count, offset = _span(query)
    entries = await queue.audit_log(count, offset=offset)
    return {"records": [asdict(entry) for entry in entries]}


async def _policy(queue: claimq.ReliableQueue, *_: object) -> Json:
    return await admin_of(queue, "").policy()


async def _limits(queue: claimq.ReliableQueue, *_: object) -> Json:
    return documents.limits("", await queue.snapshot())


READS: Mapping[str, tuple[Right, Read]] = {
    "status": (Right.LOOK, _status),
    "workers": (Right.LOOK, _workers),
    "policy": (Right.LOOK, _policy),
    "limits": (Right.LOOK, _limits),
    "clients": (Right.READ, _clients),
    "items": (Right.READ, _items),
    "item": (Right.READ, _item),
    "removed": (Right.READ, _removed),
    "audit": (Right.READ, _audit),
}
"""What can be read of a queue, by the last part of the path, and the right that it needs."""


def routes(
    names: Callable[[Request], Awaitable[list[str]]],
    read: Callable[[Request, Right, Read], Awaitable[Json]],
    changes: list[BaseRoute],
) -> BaseRoute:
    """The routes of the API. ``names``: of the queues that the user may see. ``read``: reads the queue of a request if
    its user has the right. ``changes``: those of the page, which answer programs in JSON.
    """

    async def of_all(request: Request) -> Response:
        return answer({"queues": await names(request)})

    async def of_queue(request: Request) -> Response:
        if request.path_params["read"] not in READS:
            raise HTTPException(404, f"no such path; write one of {', '.join(READS)} after the queue")
        right, function = READS[request.path_params["read"]]
        return answer({**await read(request, right, function), "queue": request.path_params["name"]})

    return Mount(
        API.rstrip("/"),
        routes=[
            Route("/queues", of_all),
            *(changes or [Route("/{path:path}", _no_changes, methods=["POST"])]),
            Route("/queues/{name}/{read}", of_queue),
        ],
    )


async def _no_changes(_: Request) -> Response:
    raise HTTPException(403, _ONLY_READS)


def selected(items: SelectedItems) -> Json:
    """The result of a dry run."""
    return {
        "matching": items.matched,
        "looked_at": items.looked_at,
        "total": items.total,
        "samples": [documents.located(item) for item in items.samples],
    }


def progress(run: Run) -> Json:
    """How far a change has come."""
    items = run.items
    return {
        "state": run.state,
        "problem": run.problem,
        "changed": items.changed,
        "looked_at": items.looked_at,
        "total": items.total,
        "problems": items.problems,
        "problem_count": items.problem_count,
    }


def _state(query: Query) -> State:
    try:
        return choice("state", query.get("state", "main"), State)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error


def _span(query: Query) -> tuple[int, int]:
    """How many entries are asked for, after how many."""
    return min(_number(query, "limit", 100), _MOST), _number(query, "offset", 0)


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, str(default))
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise HTTPException(400, f"{name} must be a whole number of items, at most 999,999,999")
    return int(text)
