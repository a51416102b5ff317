"""Requests that change items and queues. Each is a form of the page itself, or comes from a program with a token."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from claimq.errors import ItemRefused, QueueFull, StoreFull, StoreMisused, StoreUnavailable
from claimq_admin.changes.item_actions import CHANGEABLE, ItemChange, change_item
from claimq_admin.changes.queue_admin import QueueAdmin
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.reads import documents
from claimq_admin.selection.selected_items import SelectedItems
from claimq_admin.text import count, known_text
from claimq_control.large_reads import LargeReads
from claimq_web.changes.bodies import Bodies
from claimq_web.changes.filter_forms import OTHERS, change_of, check_known, filter_of
from claimq_web.changes.new_items import InvalidItem, items_of
from claimq_web.changes.queue_changes import change_queue, right_of
from claimq_web.changes.runs import Run, Runs
from claimq_web.queues.queues import Queues
from claimq_web.rendering import answer, no_queue
from claimq_web.users.access import Access, Right
from claimq_web.users.forms import Form, checked_form
from claimq_web.users.limits import AtOnce, answering
from claimq_web.users.login import Session

_ENQUEUE_SECONDS = 20.0
_ACTION_SECONDS = 60.0
_ENQUEUES_OF_A_QUEUE, _ENQUEUES_OF_A_USER, _ENQUEUES_OF_A_NAMESPACE, _ENQUEUES_AT_ONCE = 2, 2, 4, 8
"""How many requests have items in memory at the same time: each can have megabytes."""
_MOST_BODY_BYTES = 32 * 1024 * 1024
"""Of the bodies of all enqueues that have no slot yet."""


class Actions:
    """What users who have logged in can change, if they have the right. Each change is recorded."""

    def __init__(self, queues: Queues, access: Access, runs: Runs, large_reads: LargeReads) -> None:
        self._large_reads = large_reads
        self._queues = queues
        self._access = access
        self._runs = runs
        self._enqueues = AtOnce(
            _ENQUEUES_OF_A_QUEUE, _ENQUEUES_OF_A_USER, _ENQUEUES_OF_A_NAMESPACE, _ENQUEUES_AT_ONCE
        )
        self._bodies = Bodies(_MOST_BODY_BYTES)

    def routes(self) -> list[Route]:
        """The routes of the changes."""
        return [
            Route("/queues/{name}", _in_time(self._change_queue), methods=["POST"]),
            Route("/queues/{name}/item", _in_time(self._change_item), methods=["POST"]),
            Route("/queues/{name}/{page}", _in_time(self._change_selected), methods=["POST"]),
            Route("/queues/{name}/runs/{run}", self._stop_run, methods=["POST"]),
        ]

    def routes_of_programs(self) -> list[Route]:
        """The routes of changes that only the API has, since their bodies are no forms."""
        return [Route("/queues/{name}/enqueue", self._enqueue, methods=["POST"])]

    async def _change_queue(self, request: Request) -> Response:
        """Changes a whole queue, or drains a worker of it."""
        session, form = await checked_form(request)
        name = str(request.path_params["name"])
        admin = await self._admin(session, name, right_of(form))
        try:
            text, fields = await change_queue(name, admin, form)
        except CommandError as error:
            if error.exit_code == USAGE:
                raise HTTPException(400, str(error)) from error
            return _not_carried_out(request, error, _path(name))
        except (ValueError, TypeError) as error:
            raise HTTPException(400, str(error)) from error
        return _carried_out(request, text, _path(name), **fields)

    async def _enqueue(self, request: Request) -> Response:
        """Adds the items in the JSON document of a request to a queue that exists."""
        # Where changes are possible, the API has no request without a user.
        session: Session = request.state.session
        name = str(request.path_params["name"])
        admin = await self._admin(session, name, Right.ADD)
        async with AsyncExitStack() as stack:
            async with self._bodies.one(request, session.user, _ENQUEUE_SECONDS) as body:
                await stack.enter_async_context(self._enqueues.slot(name, session.user))
            try:
                new = items_of(body)
                await admin.record("enqueue", count=len(new), adds=True)
                async with asyncio.timeout(_ENQUEUE_SECONDS):
                    enqueued = await admin.queue.enqueue_many(new)
            except TimeoutError as error:
                raise StoreUnavailable(
                    f"the server did not answer within {_ENQUEUE_SECONDS:g} s; the items may be enqueued or not"
                ) from error
            except (ItemRefused, InvalidItem) as error:
                status = 422 if isinstance(error, ItemRefused) else 400
                return answer({"message": str(error), "index": error.index}, status)
            except QueueFull as error:
                response = answer({"message": str(error), **vars(error)}, 429)
                response.headers["Retry-After"] = "1"
                return response
            except (StoreFull, StoreMisused) as error:
                if self._queues.shown(error) is not error:
                    raise
                raise HTTPException(422, str(error)) from error
            except (ValueError, TypeError) as error:
                raise HTTPException(400, str(error)) from error
        fields = {**documents.enqueued(name, enqueued), "queue": name}
        known = len(enqueued.duplicates)
        message = f"{count(len(new) - known)} enqueued{known_text(known)}"
        return _carried_out(request, message, _path(name), **fields)

    async def _change_item(self, request: Request) -> Response:
        """Acts on one item."""
        session, form = await checked_form(request)
        name = str(request.path_params["name"])
        item_id = form.get("id", "")
        admin, change = await self._item_admin(session, name, form)
        check_known(form, {*OTHERS, "id", "delay"})
        stays = change.action in ("cancel", "run-now", "requeue")
        path = _path(name, "item?" + urlencode({"id": item_id})) if stays else _path(name)
        try:
            return _carried_out(request, await change_item(admin, item_id, change), path)
        except CommandError as error:
            return _not_carried_out(request, error, path)

    async def _change_selected(self, request: Request) -> Response:
        """Starts a change of all items of a state that pass a filter."""
        session, form = await checked_form(request)
        name, page = str(request.path_params["name"]), str(request.path_params["page"])
        if page not in CHANGEABLE:
            raise HTTPException(404, "there is no such page")
        admin, change = await self._item_admin(session, name, form)
        items = SelectedItems(admin, filter_of(form), state=CHANGEABLE[page], rate=_rate(form))
        try:
            steps = items.steps_of(change)
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        target = form["target"] if admin.destination else None
        is_allowed = partial(self._may_change, session, name, target)
        run_id = self._runs.start(Run(name, session.user, items, steps, is_allowed, self._queues.shown))
        if run_id is None:
            raise HTTPException(
                503,
                "too many changes are running: of you, of this namespace or altogether; wait for one or stop it",
            )
        return _carried_out(request, "", _path(name, f"runs/{run_id}"), run=run_id)

    async def _stop_run(self, request: Request) -> Response:
        session, _ = await checked_form(request)
        name, run_id = str(request.path_params["name"]), str(request.path_params["run"])
        await self._check(session, name, Right.CHANGE)
        run = self._runs.find(run_id, name)
        if run is None:
            raise HTTPException(404, "there is no such change")
        run.stop.set()
        return _carried_out(request, "", _path(name, f"runs/{run_id}"))

    async def _item_admin(self, session: Session, name: str, form: Form) -> tuple[QueueAdmin, ItemChange]:
        """The queue, for the change of items in a form, and this change."""
        admin, change = await self._admin(session, name, Right.CHANGE), change_of(form)
        if change.action == "move":
            target = form.get("target", "")
            if target == name:
                raise HTTPException(400, "the items are in this queue already; name another one")
            admin = replace(admin, destination=await self._admin(session, target, Right.ADD))
        return admin, change

    async def _admin(self, session: Session, name: str, right: Right) -> QueueAdmin:
        """The queue, for changes by a user who has the right on it."""
        await self._check(session, name, right)
        admin = self._queues.admin(name, session.user)
        if admin is None:
            raise no_queue(name)
        async with answering(name, _ACTION_SECONDS):
            await self._queues.check(name)
            if not await admin.queue.exists():
                raise no_queue(name)
        return replace(admin, turn=partial(self._large_reads.turn, name.partition(".")[0]))

    async def _may_change(self, session: Session, name: str, target: str | None) -> bool:
        """Whether the user may change the items of a queue and, to move them, add some to another. Both must still be
        the queues of their objects."""
        try:
            for queue_name in (name,) if target is None else (name, target):
                await self._queues.check(queue_name)
        except (StoreMisused, StoreUnavailable) as error:
            if isinstance(self._queues.shown(error), StoreMisused):
                return False
            # The run itself ends if the server stays away.
        return await self._access.may(session, Right.CHANGE, name) and (
            target is None or await self._access.may(session, Right.ADD, target)
        )

    async def _check(self, session: Session, name: str, right: Right) -> None:
        if await self._access.may(session, right, name):
            return
        if not await self._access.may(session, Right.LOOK, name):
            raise no_queue(name)
        raise HTTPException(403, f"you may not {right.value}: {name[:200]}")


def _in_time(handle: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The same, ended after a minute: a server that sends its answer byte by byte must not hold the request."""

    async def handle_in_time(request: Request) -> Response:
        try:
            async with asyncio.timeout(_ACTION_SECONDS):
                return await handle(request)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"the server did not finish its answers within {_ACTION_SECONDS:g} s; the change may be done in part"
            ) from error

    return handle_in_time


def _rate(form: Form) -> float | None:
    text = form.get("rate", "").strip()
    try:
        rate = float(text) if text else None
    except ValueError:
        rate = 0.0
    if rate is not None and not 0.1 <= rate <= 1_000_000:
        raise HTTPException(400, "the rate is a number of items per second, at least 0.1")
    return rate


def _path(name: str, suffix: str = "") -> str:
    return f"/queues/{name}" + (f"/{suffix}" if suffix else "")


def _carried_out(request: Request, text: str, path: str, **fields: object) -> Response:
    """The answer to a change: leads a browser to a page with the text; a program gets the text and the fields."""
    if request.state.is_api:
        return answer({"message": text, **fields})
    session: Session = request.state.session
    if text:
        session.note(text)
    return RedirectResponse(path, 303)


def _not_carried_out(request: Request, error: CommandError, path: str) -> Response:
    if request.state.is_api:
        raise HTTPException(409, str(error)) from error
    return _carried_out(request, f"not done: {error}", path)
