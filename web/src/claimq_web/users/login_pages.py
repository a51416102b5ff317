"""The pages on which users log in and out."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from claimq_web.users.forms import checked_form, read_form
from claimq_web.users.login import Logins, SessionAddress, TooManyChecks
from claimq_web.users.security import LOGIN, peer_of


class LoginPages:
    """Begins and ends sessions."""

    def __init__(self, logins: Logins, page: Callable[..., Response]) -> None:
        """``page``: makes a page from a request, a template and its values."""
        self._logins = logins
        self._page = page

    def routes(self) -> list[Route]:
        """The routes of these pages."""
        return [
            Route(LOGIN, self._log_in, methods=["GET", "POST"]),
            Route("/logout", self._log_out, methods=["POST"]),
        ]

    async def _log_in(self, request: Request) -> Response:
        """The login page. A form with a known token begins a session and goes on to the page that was asked for."""
        fields = request.query_params if request.method != "POST" else await read_form(request)
        path = own_path(fields.get("next", ""))
        if request.method != "POST":
            return self._form(request, path)
        try:
            begun = await self._logins.log_in(fields.get("token", "").strip(), peer_of(request.scope))
        except TooManyChecks as error:
            refusal = self._form(request, path, f"Not logged in: {error}.", status=429)
            refusal.headers["Retry-After"] = str(error.retry_after)
            return refusal
        if begun is None:
            return self._form(request, path, "This token is not known.", status=403)
        address, cookie = begun
        response = RedirectResponse(address.base + path, 303)
        # Behind a proxy with TLS the browser says so in the origin of its form.
        is_secure = request.headers.get("origin", "").startswith("https://")
        response.set_cookie(
            address.cookie, cookie, path=address.base, httponly=True, samesite="lax", secure=is_secure
        )
        return response

    def _form(self, request: Request, path: str, problem: str = "", *, status: int = 200) -> Response:
        """The login page. ``path``: where a login leads to."""
        values = {"next": path, "problem": problem, "ended": request.query_params.get("ended", "")}
        return self._page(request, "login.html", status=status, hint=self._logins.hint, **values)

    async def _log_out(self, request: Request) -> Response:
        await checked_form(request)
        address: SessionAddress = request.state.address  # or there was no session, and so no form
        self._logins.log_out(address, request.cookies.get(address.cookie, ""))
        response = RedirectResponse(f"{LOGIN}?ended={address.key}", 303)
        response.delete_cookie(address.cookie, path=address.base, httponly=True, samesite="lax")
        return response


def own_path(path: str) -> str:
    """The path, if it is one of this page's; otherwise that of the first page."""
    is_own = path.startswith("/") and path.isprintable() and not set(path[1:2]) & {"/", "\\"}
    return path if is_own else "/"
