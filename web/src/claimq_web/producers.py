"""The endpoint for producers: of the page only the request that adds items."""

from __future__ import annotations

from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from claimq_web.rendering import HEALTHY, answer
from claimq_web.users.security import API, HEALTH
from claimq_web.website import Site

_NO_PAGE = answer({"message": "there is no page here; send POST /api/v1/queues/NAME/enqueue"}, 404)


def producer_app(site: Site, *hosts: str) -> ASGIApp:
    """The ASGI app of the endpoint. ``hosts``: as for :meth:`Site.app`."""
    adds = Mount(API.rstrip("/"), routes=site.actions.routes_of_programs())
    guarded = site.guarded([Route(HEALTH, HEALTHY, methods=["GET"]), adds], hosts)

    async def only_api(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        await (guarded if path == HEALTH or path.startswith(API) else _NO_PAGE)(scope, receive, send)

    return only_api
