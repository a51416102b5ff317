"""Refuses requests that no page of ours sends, and adds the headers that limit what a page can do."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from claimq_spec.http_host import is_own_host

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
STATIC = "/static/"
"""Paths of files that a browser may keep: they change with the content."""
METHODS = ("GET", "HEAD")


class Guarded:
    """The app behind these checks. ``host``: the address that it listens on."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                is_kept = scope["path"].startswith(STATIC) and message["status"] == 200
                headers["Cache-Control"] = "max-age=31536000, immutable" if is_kept else "no-store"
            await send(message)

        refused = self._refusal(scope["method"], Headers(scope=scope))
        await (refused or self._app)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> PlainTextResponse | None:
        if len(headers.getlist("host")) != 1 or not is_own_host(headers["host"], self._host):
            # A name that resolves to this address can belong to a page of another site (DNS rebinding).
            return PlainTextResponse("open this page by its IP address or as localhost\n", 421)
        if method not in METHODS:
            return PlainTextResponse("this page only reads; use GET\n", 405, {"Allow": ", ".join(METHODS)})
        is_foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        is_link = [headers.get(f"sec-fetch-{name}") for name in ("mode", "dest")] == ["navigate", "document"]
        # Browsers leave out the other headers where they do not trust the connection.
        origin = headers.get("origin", f"http://{headers['host']}")
        if (is_foreign and not is_link) or origin.partition("://")[2] != headers["host"]:
            return PlainTextResponse("this page cannot be used by other sites\n", 403)
        return None
