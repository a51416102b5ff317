"""Pages as their users see them: with name and notices; errors as a page, or as JSON in the API."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from claimq.errors import ClaimqError, InvalidName, StoreUnavailable
from claimq_admin.errors import ForeignQueue
from claimq_kubernetes.port import ClusterError
from claimq_web.queues.queues import Queues
from claimq_web.rendering import HERE, answer, page
from claimq_web.users.limits import TooManyRequests
from claimq_web.users.login import Session

STATIC_FILES = HERE / "static"
VERSION = hashlib.sha256(b"".join(file.read_bytes() for file in sorted(STATIC_FILES.iterdir()))).hexdigest()[
    :12
]
"""Part of the address of the static files, so that a browser keeps them until they change."""


class PagesOfUsers:
    """Makes the pages of a site over some queues."""

    def __init__(self, queues: Queues, *, has_login_page: bool) -> None:
        self._queues = queues
        self._has_login_page = has_login_page

    def app(self, routes: Sequence[BaseRoute]) -> Starlette:
        """The app with these routes; each error has its page."""
        app = Starlette(routes=routes)
        app.add_exception_handler(ClaimqError, self._store_error)
        app.add_exception_handler(ClusterError, self._cluster_error)
        app.add_exception_handler(HTTPException, self._http_error)
        app.add_exception_handler(Exception, self._defect)
        return app

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
        """A page for the user of a request. ``values``: those of the template."""
        session: Session | None = request.state.session
        # An open tab that updates itself leaves the notices to the page that its user opens.
        is_opened = request.headers.get("sec-fetch-mode", "navigate") == "navigate"
        return page(
            template,
            status=status,
            version=VERSION,
            base=request.state.address.base if request.state.address else "",
            user=session.user if session else "",
            form_token=session.form_token if session else "",
            has_login_page=self._has_login_page,
            notices=session.take_notices() if session and is_opened else [],
            **values,
        )

    async def _store_error(self, request: Request, error: Exception) -> Response:
        if isinstance(error, TooManyRequests):
            refusal = self._error(request, 429, str(error))
            refusal.headers["Retry-After"] = "1"
            return refusal
        message = self._queues.shown(error) if isinstance(error, ClaimqError) else error
        is_away = isinstance(message, StoreUnavailable | ForeignQueue)
        status = 404 if isinstance(message, InvalidName) else 503 if is_away else 500
        is_open = message is not error and request.method == "POST"
        return self._error(
            request, status, f"{message}; the change may be done in part" if is_open else str(message)
        )

    async def _cluster_error(self, request: Request, error: Exception) -> Response:
        return self._error(request, 503, str(error))

    async def _http_error(self, request: Request, error: Exception) -> Response:
        status, text = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
        return self._error(request, status, text)

    async def _defect(self, request: Request, error: Exception) -> Response:  # noqa: ARG002 - the server logs it
        text = "claimq has a defect, or met a value that it does not expect; its log has the error"
        return self._error(request, 500, text)

    def _error(self, request: Request, status: int, message: str) -> Response:
        if request.state.is_api:
            return answer({"message": message}, status)
        return self.page(request, "error.html", status=status, message=message)
