"""Finds the web page that --web-api names."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit

from claimq.errors import ClaimqError
from claimq_admin.errors import REFUSED, USAGE, CommandError
from claimq_admin.remote.page_api import PageApi, Place
from claimq_cli.cluster.kubectl import Kubectl
from claimq_cli.cluster.port_forwards import PortForwards
from claimq_cli.cluster.user_token import user_token
from claimq_process.http_host import is_loopback

_PORT = 80
_TOKEN = "CLAIMQ_WEB_TOKEN"  # noqa: S105 - the name of a variable


@asynccontextmanager
async def page_at(address: str, namespace: str | None, kube_context: str | None) -> AsyncGenerator[PageApi]:
    """The page with this URL, or of the Service ``svc/NAMESPACE/NAME``, whose port is forwarded inside the block.

    ``namespace``: of the ReliableQueues; empty for that of kubectl's configuration, None for names as on the page.
    """
    kubectl = Kubectl(kube_context or "", namespace or "")
    namespace_text = kubectl.current_namespace if namespace == "" else namespace or ""
    token = os.environ.get(_TOKEN, "").strip()
    if not address.startswith("svc/"):
        place = _place_of(address, token)

        async def known() -> Place:
            return place

        with _readable(address):
            yield PageApi(known, namespace_text)
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
            yield PageApi(forwarded, namespace_text)
    finally:
        await forwards.close()


def _place_of(url: str, token: str) -> Place:
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
