"""Refuses requests that no page of ours sends, and adds the headers that limit what a page can do."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from claimq_kubernetes.port import ClusterError
from claimq_process.http_host import is_own_host
from claimq_web.users.limits import RequestsOfUsers, TooManyRequests
from claimq_web.users.login import Logins, ProxyHeaders, Session, SessionAddress, TooManyChecks, split_path

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers send forms without their origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = "/static/"
"""Paths of files that a browser may keep: they change with the content."""
LOGIN = "/login"
HEALTH = "/healthz"
"""The path that says whether the process serves; the only one that needs no login."""
API = "/api/v1/"
"""Paths of the JSON API: requests have a token, and no cookie."""
METRICS = "/metrics"
"""The path of the metrics of local mode, for programs as well."""
FORM = "application/x-www-form-urlencoded"
_READS = ("GET", "HEAD")
_ONLY_READS = (
    "this page only reads; to change queues start `claimq up --web-actions` or `claimq web --actions`\n"
)
_LONGEST_FORM = 64 * 1024
_ITEMS = re.compile(f"{API}queues/[^/]+/enqueue")
"""Paths of requests with items, which are larger than forms; only programs send them."""
_ITEMS_TYPE = "application/json"
_LONGEST_ITEMS = 4 * 1024 * 1024


class Guarded:
    """The app behind these checks. ``hosts``: the address that it listens on, and names by which it is opened.

    With ``logins`` all pages but the login need a session, and forms may be sent. With ``proxy`` the user is the one
    that the proxy names. An app finds the session, and the address that its links begin with, in its scope's state, and
    sees paths without that address.
    """

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        logins: Logins | None = None,
        proxy: ProxyHeaders | None = None,
    ) -> None:
        self._app = app
        self._hosts = tuple(hosts)
        self._logins = logins
        self._proxy = proxy
        self._requests = RequestsOfUsers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] != "http":
            return
        address, path = None, scope["path"]
        if self._logins is not None and self._proxy is None:
            address, path = split_path(path)
        scope = {**scope, "path": path}
        headers = Headers(scope=scope)
        state = scope.setdefault("state", {})
        state["address"] = None
        send = _guarded(send, path, state)
        state["is_api"] = scope["path"].startswith(API) or scope["path"] == METRICS
        answer = self._refusal(scope["method"], scope["path"], headers)
        if answer is None and state["is_api"]:
            state["session"], answer = await self._of_token(headers, peer_of(scope))
        elif answer is None:
            state["session"] = self._session(scope, headers, address)
            state["address"] = address if state["session"] is not None else None
            answer = self._needs_login(scope, state["session"], address)
        if answer is not None and scope["path"].startswith(API):
            answer = _in_json(answer)
        session: Session | None = state.get("session")
        if answer is not None or session is None or scope["path"].startswith((STATIC, HEALTH)):
            await (answer or self._app)(scope, receive, send)
            return
        try:
            with self._requests.one(session.user):
                await self._app(scope, receive, send)
        except TooManyRequests as error:
            refusal: Response = PlainTextResponse(f"{error}\n", 429, {"Retry-After": "1"})
            await (_in_json(refusal) if state["is_api"] else refusal)(scope, receive, send)

    async def _of_token(self, headers: Headers, peer: str) -> tuple[Session | None, Response | None]:
        """The session of a request to the API, or why there is none."""
        if self._logins is None:
            return None, None
        if self._proxy is not None:
            return None, PlainTextResponse("this page takes users from its proxy only, and no tokens\n", 403)
        kind, _, token = headers.get("authorization", "").partition(" ")
        try:
            session = await self._logins.session_of_token(token.strip(), peer) if kind == "Bearer" else None
        except TooManyChecks as error:
            return None, PlainTextResponse(f"{error}\n", 429, {"Retry-After": str(error.retry_after)})
        except ClusterError as error:
            return None, PlainTextResponse(f"the token cannot be checked now: {error}\n", 503)
        if session is not None:
            return session, None
        return None, PlainTextResponse(
            "send a valid token, as Authorization: Bearer TOKEN\n",
            401,
            {"WWW-Authenticate": "Bearer"},
        )

    def _session(self, scope: Scope, headers: Headers, address: SessionAddress | None) -> Session | None:
        if self._logins is None:
            return None
        if self._proxy is None:
            if address is None:
                return None
            return self._logins.session(address, HTTPConnection(scope).cookies.get(address.cookie, ""))
        counts = [
            len(headers.getlist(header)) for header in (self._proxy.user_header, self._proxy.group_header)
        ]
        if not self._proxy.trusts(peer_of(scope)) or counts[0] != 1 or counts[1] > 1:
            return None  # of two headers one may be the user's own
        user = self._proxy.user(headers)
        return None if user is None else self._logins.session_of(user)

    def _refusal(self, method: str, path: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not any(
            is_own_host(host, own_name) for own_name in self._hosts
        ):
            # A name that resolves to this address can belong to a page of another site (DNS rebinding).
            return PlainTextResponse(
                "open this page by its IP address, as localhost, or by a name given with --hostname\n", 421
            )
        allowed = _READS if self._logins is None else (*_READS, "POST")
        if method not in allowed:
            why = "use GET or POST\n" if self._logins is not None else _ONLY_READS
            return PlainTextResponse(why, 405, {"Allow": ", ".join(allowed)})
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        is_link = [headers.get(f"sec-fetch-{name}") for name in ("mode", "dest")] == ["navigate", "document"]
        # Browsers leave out the other headers where they do not trust the connection.
        origin = headers.get("origin", f"http://{host}")
        if (is_foreign and not (is_link and method in _READS)) or origin.partition("://")[2] != host:
            return PlainTextResponse("this page cannot be used by other sites\n", 403)
        if method in _READS:
            return None
        if _ITEMS.fullmatch(path):
            return _refused_body(headers, _ITEMS_TYPE, _LONGEST_ITEMS)
        return _refused_body(headers, FORM, _LONGEST_FORM)

    def _needs_login(
        self, scope: Scope, session: Session | None, address: SessionAddress | None
    ) -> Response | None:
        path: str = scope["path"]
        if self._logins is None or session is not None or path == HEALTH or path.startswith(STATIC):
            return None
        if self._proxy is not None:
            return PlainTextResponse("open this page through its proxy, which has to name a user\n", 403)
        if path == LOGIN:
            return None
        if scope["method"] not in _READS:
            return PlainTextResponse("log in first\n", 403)
        query = scope["query_string"].decode("latin-1")
        target = quote(path) + ("?" + query if query else "")
        ended = f"&ended={address.key}" if address else ""
        return RedirectResponse(f"{LOGIN}?next={quote(target, safe='')}{ended}", 303)


def _guarded(send: Send, path: str, state: Mapping[str, Any]) -> Send:
    """Sends a response with our headers; what it leads to is below the address of the session."""

    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            address, location = state["address"], headers.get("location", "")
            if address is not None and location.startswith("/queues/"):
                headers["location"] = address.base + location
            is_kept = path.startswith(STATIC) and message["status"] == 200
            headers["Cache-Control"] = "max-age=31536000, immutable" if is_kept else "no-store"
        await send(message)

    return send_guarded


def peer_of(scope: Scope) -> str:
    """The address of the client of a request; empty if it is unknown."""
    peer: str = (scope.get("client") or ("", 0))[0]
    return peer


def _in_json(refusal: Response) -> Response:
    """A refusal as the other answers of the API are."""
    names = ("allow", "retry-after", "www-authenticate")
    headers = {name: refusal.headers[name] for name in names if name in refusal.headers}
    return JSONResponse({"message": bytes(refusal.body).decode().strip()}, refusal.status_code, headers)


def _refused_body(headers: Headers, content_type: str, longest: int) -> Response | None:
    """A refusal of a body of another type, or one that is too large."""
    length = headers.get("content-length", "")
    # With both headers the length is not that of the body.
    if "transfer-encoding" in headers or not length.isascii() or not length.isdigit():
        return PlainTextResponse("send the body with its length\n", 411)
    if int(length) > longest:
        return PlainTextResponse(f"this request has at most {longest} bytes\n", 413)
    if headers.get("content-type", "").partition(";")[0].strip().lower() != content_type:
        return PlainTextResponse(f"send the body as {content_type}\n", 415)
    return None
