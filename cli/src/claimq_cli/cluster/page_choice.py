"""Finds the web page that --web-api names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from claimq.errors import ClaimqError
from claimq_admin.errors import REFUSED, USAGE, CommandError
from claimq_admin.remote.page_api import PageApi, Place, parse_page_url
from claimq_cli.cluster.kubectl import Kubectl
from claimq_cli.cluster.port_forwards import PortForwards
from claimq_cli.cluster.user_token import user_token

_PORT = 80
_TOKEN = "CLAIMQ_WEB_TOKEN"  # noqa: S105 - the name of a variable


@asynccontextmanager
async def page_at(address: str, namespace: str | None, kube_context: str | None) -> AsyncGenerator[PageApi]:
    """The page with this URL, or of the Service ``svc/NAMESPACE/NAME``, whose port is forwarded inside the block.

    ``namespace``: of the ReliableQueues; empty for that of kubectl's configuration, None for names as on the page.
    """
    kubectl = Kubectl(kube_context or "", namespace or "")
    shown = kubectl.current_namespace if namespace == "" else namespace or ""
    token = os.environ.get(_TOKEN, "").strip()
    if not address.startswith("svc/"):
        place = parse_page_url(address, token)

        async def known() -> Place:
            return place

        with _readable(address):
            yield PageApi(known, shown)
        return
    match address.split("/"):
        case [_, where, name] if where and name:
            pass
        case _:
            raise CommandError(f"--web-api {address}: write svc/NAMESPACE/NAME", USAGE)
    forwards = PortForwards(kubectl)

    async def forwarded() -> Place:
        used = token or await asyncio.to_thread(user_token, kubectl)
        port = await forwards.local_port(f"{name}.{where}.svc", _PORT, where)
        return Place("http", f"127.0.0.1:{port}", used)

    try:
        with _readable(address):
            yield PageApi(forwarded, shown)
    finally:
        await forwards.close()


@contextmanager
def _readable(address: str) -> Generator[None]:
    """CommandError for an answer without the fields of the API: it is another program's, or of another release."""
    try:
        yield
    except ClaimqError:
        raise
    except (LookupError, AttributeError, TypeError, ValueError) as error:
        raise CommandError(
            f"--web-api {address}: this command cannot read an answer ({error!r}); "
            "is this a web page of claimq, and of a similar release?",
            REFUSED,
        ) from error
