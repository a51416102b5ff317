"""Requests to the API of a web page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlencode

from claimq.errors import ItemTooLarge
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq_admin.errors import NOT_DONE, REFUSED, UNAVAILABLE, USAGE, CommandError, NotTaken

Json = dict[str, Any]
_SECONDS = 60.0
_MOST_BYTES = 32 * 1024 * 1024
_FORM = "application/x-www-form-urlencoded"
_EXIT_CODES = {400: USAGE, 404: NOT_DONE, 409: NOT_DONE, 429: UNAVAILABLE}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page is served. ``token``: of the user; empty for a page without a login. CommandError, without the
    token, for one that no header can have."""

    scheme: str
    host: str
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise CommandError(
                "the token for --web-api has a line end or another character that no token has", USAGE
            )


class PageApi:
    """The API of a page. ``find``: its place, asked for before the first request."""

    def __init__(self, find: Callable[[], Awaitable[Place]], namespace: str = "") -> None:
        """``namespace``: of the ReliableQueues; empty: the names of queues are those on the page."""
        self._find = find
        self._namespace = namespace
        self._place: Place | None = None

    def name_on_page(self, name: str) -> str:
        """The name of a queue on the page."""
        return f"{self._namespace}.{name}" if self._namespace else name

    async def names(self) -> list[str]:
        """The queues that the user may see, as commands name them."""
        names: list[str] = (await self._request("GET", "queues"))["queues"]
        begin = self.name_on_page("")
        return [name.removeprefix(begin) for name in names if name.startswith(begin)]

    async def get(self, queue: str, path: str, **query: object) -> Json:
        """What a read of a queue finds. CommandError with the page's message if it refuses."""
        known = {name: value for name, value in query.items() if value is not None}
        return await self._request("GET", f"{self._path(queue, path)}?{urlencode(known)}")

    async def post(self, queue: str, path: str, form: Mapping[str, str]) -> Json:
        """Sends a change of a queue. CommandError with the page's message if it refuses."""
        return await self._request("POST", self._path(queue, path), _FORM, urlencode(form))

    async def enqueue(self, queue: str, items: Sequence[str]) -> Json:
        """Adds items, each a JSON object. CommandError with the page's message if it refuses, NotTaken if one of them
        is not valid, ItemTooLarge if the queue does not take one of them; if the page does not answer, with the exit
        code UNAVAILABLE, and then they may be enqueued or not."""
        body = f'{{"items": [{", ".join(items)}]}}'
        return await self._request("POST", self._path(queue, "enqueue"), "application/json", body)

    def _path(self, queue: str, path: str) -> str:
        return f"queues/{quote(self.name_on_page(queue), safe='')}" + (f"/{path}" if path else "")

    async def _request(self, method: str, path: str, kind: str = "", body: str = "") -> Json:
        if self._place is None:
            self._place = await self._find()
        with BoundedRead("web page", DEFAULT_BOUNDS, parses=False) as read:
            return await read.reply(
                asyncio.to_thread(_answer, self._place, method, f"/api/v1/{path}", kind, body)
            )


def _answer(place: Place, method: str, path: str, kind: str, body: str) -> Json:
    import http.client  # other commands do not need it

    headers = {"Accept": "application/json"}
    if place.token:
        headers["Authorization"] = f"Bearer {place.token}"
    if kind:
        headers["Content-Type"] = kind
    connection_class = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    try:
        connection = connection_class(place.host, timeout=_SECONDS)
        try:
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            text = response.read(_MOST_BYTES + 1)
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise CommandError(
            f"the web page at {place.scheme}://{place.host} does not answer: {error}", UNAVAILABLE
        ) from error
    return _read(response.status, text)


def _read(status: int, text: bytes) -> Json:
    body: object = None
    if len(text) <= _MOST_BYTES:
        with suppress(ValueError):
            body = json.loads(text)
    document = cast("Json", body) if isinstance(body, dict) else {}
    if status == 200 and document:
        return document
    if status == 422:
        numbers = (document.get(name) for name in ("size", "limit", "index"))
        size, limit, index = (number if isinstance(number, int) else -1 for number in numbers)
        if min(size, limit, index) >= 0:
            raise ItemTooLarge(size=size, limit=limit, index=index)
    message = document.get("message") or "no answer of the API of claimq"
    if status == 400 and isinstance(position := document.get("index"), int):
        raise NotTaken(f"the web page: {message}", position)
    code = _EXIT_CODES.get(status, UNAVAILABLE if status >= 500 else REFUSED)
    raise CommandError(f"the web page: {message} (status {status})", code)
