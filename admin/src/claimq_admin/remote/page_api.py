"""Requests to the API of a web page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, urlencode, urlsplit

from claimq.errors import ItemTooLarge
from claimq.redis_store.bounded_read import DEFAULT_BOUNDS, BoundedRead
from claimq_admin.errors import NOT_DONE, REFUSED, UNAVAILABLE, USAGE, CommandError
from claimq_process.http_host import is_loopback

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


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request."""

    content_type: str
    text: str


class NotTaken(CommandError):
    """The page does not take one of several items. ``index``: its position in the call. None was stored."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message, REFUSED)
        self.index = index


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
        listed: list[str] = (await self._request("GET", "queues"))["queues"]
        begin = self.name_on_page("")
        return [name.removeprefix(begin) for name in listed if name.startswith(begin)]

    async def get(self, queue: str, path: str, **query: object) -> Json:
        """What a read of a queue finds. CommandError with the page's message if it refuses."""
        known = {name: value for name, value in query.items() if value is not None}
        return await self._request("GET", f"{self._path(queue, path)}?{urlencode(known)}")

    async def post(self, queue: str, path: str, form: Mapping[str, str]) -> Json:
        """Sends a change of a queue. CommandError with the page's message if it refuses."""
        return await self._request("POST", self._path(queue, path), Body(_FORM, urlencode(form)))

    async def enqueue(self, queue: str, items: Sequence[str]) -> Json:
        """Adds items, each a JSON object. CommandError with the page's message if it refuses, NotTaken if one of them
        is not valid, ItemTooLarge if the queue does not take one of them; if the page does not answer, with the exit
        code UNAVAILABLE, and then they may be enqueued or not."""
        body = Body("application/json", f'{{"items": [{", ".join(items)}]}}')
        return await self._request("POST", self._path(queue, "enqueue"), body)

    def _path(self, queue: str, path: str) -> str:
        return f"queues/{quote(self.name_on_page(queue), safe='')}" + (f"/{path}" if path else "")

    async def _request(self, method: str, path: str, body: Body | None = None) -> Json:
        if self._place is None:
            self._place = await self._find()
        with BoundedRead("web page", DEFAULT_BOUNDS, parses=False) as read:
            return await read.reply(asyncio.to_thread(_answer, self._place, method, f"/api/v1/{path}", body))


def parse_page_url(url: str, token: str) -> Place:
    """The place of a page with this URL. CommandError for one that is malformed, or to which the token would be sent
    unencrypted over a network."""
    parts = urlsplit(url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.netloc
        or parts.path not in ("", "/")
        or parts.query
    ):
        raise CommandError(
            f"--web-api {url}: not the address of a page; write http://127.0.0.1:7380, https://HOST or "
            "svc/NAMESPACE/NAME",
            USAGE,
        )
    if token and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise CommandError(
            f"--web-api {url}: the token would be sent unencrypted; use https, or svc/NAMESPACE/NAME", USAGE
        )
    return Place(parts.scheme, parts.netloc, token)


def _answer(place: Place, method: str, path: str, body: Body | None) -> Json:
    import http.client  # other commands do not need it

    headers = {"Accept": "application/json"}
    if place.token:
        headers["Authorization"] = f"Bearer {place.token}"
    if body is not None:
        headers["Content-Type"] = body.content_type
    made = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
    try:
        connection = made(place.host, timeout=_SECONDS)
        try:
            connection.request(method, path, None if body is None else body.text, headers)
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
    found: object = None
    if len(text) <= _MOST_BYTES:
        with suppress(ValueError):
            found = json.loads(text)
    document = cast("Json", found) if isinstance(found, dict) else {}
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
