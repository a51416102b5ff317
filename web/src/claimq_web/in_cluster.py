"""Serves the page of the ReliableQueues of the cluster that this runs in. Users log in with tokens of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from typing import Any

import click

from claimq_admin.cluster.granted import granted
from claimq_admin.errors import UNAVAILABLE, CommandError
from claimq_admin.stop_signals import stopping
from claimq_kubernetes.client import KubernetesClient
from claimq_kubernetes.deep_json import accept_deep_json
from claimq_kubernetes.port import ClusterError
from claimq_process.certificates import certificate_directory
from claimq_web.listening import opened, url_of
from claimq_web.options import actions_option, hostname_option, proxy_options
from claimq_web.producers import producer_app
from claimq_web.queues.cluster_queues import ClusterQueues
from claimq_web.server import served
from claimq_web.users.login import Logins, ProxyHeaders
from claimq_web.users.reviews import ReviewedAccess, TokenLogin
from claimq_web.users.token_checks import TokenChecks
from claimq_web.website import Site

_HINT = "A token of Kubernetes, for instance from: kubectl create token NAME --namespace NAMESPACE"


@click.command("claimq-web")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="0.0.0.0:7380",
    show_default=True,
    help="Address of the page.",
)
@click.option(
    "--only-namespace",
    "namespaces",
    metavar="NAMESPACE",
    multiple=True,
    help="Show only this namespace; can be repeated (default: all).",
)
@hostname_option
@click.option(
    "--producers",
    "only_producers",
    is_flag=True,
    help="Serve no page, only the request that adds items, for programs with tokens.",
)
@actions_option
@proxy_options
def serve(**options: Any) -> None:
    """Serve the web page of the ReliableQueues of the cluster that this runs in, until SIGTERM."""
    asyncio.run(_serve(**options))


async def _serve(
    *,
    listen: str,
    namespaces: tuple[str, ...],
    hostnames: tuple[str, ...],
    may_act: bool,
    proxy: ProxyHeaders | None,
    only_producers: bool,
) -> None:
    if only_producers and (may_act or proxy):
        raise click.UsageError("--producers serves no page: remove --actions and --trust-proxy")
    accept_deep_json()
    app = producer_app if only_producers else Site.app
    listening, host = opened(listen, default=listen, allow_remote=True)
    with listening:
        async with (
            _site(namespaces, may_act=may_act, proxy=proxy, only_producers=only_producers) as site,
            stopping() as stop,
            nullcontext() if only_producers else site.running(),
            served(app(site, host, *hostnames), listening),
        ):
            click.echo(f"{'endpoint for producers' if only_producers else 'web page'}: {url_of(listening)}")
            await stop.wait()


@asynccontextmanager
async def _site(
    namespaces: tuple[str, ...], *, may_act: bool, proxy: ProxyHeaders | None, only_producers: bool
) -> AsyncGenerator[Site]:
    """What serves the ReliableQueues of the cluster. CommandError if its API server cannot be used."""
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(certificate_directory())
        try:
            cluster = await KubernetesClient.connect(_not_counted, manager="claimq-web")
            stack.push_async_callback(cluster.close)
            queues = ClusterQueues(
                cluster, directory, namespaces, granted(), writes_events=not only_producers
            )
            stack.push_async_callback(queues.close)
            await queues.refresh()
        except ClusterError as error:
            raise CommandError(str(error), UNAVAILABLE) from error
        logins = Logins(TokenChecks(TokenLogin(cluster)), hint=_HINT)
        access = ReviewedAccess(cluster, may_act=may_act or only_producers)
        await stack.enter_async_context(queues.running())
        yield Site(queues, logins, may_act=may_act, access=access, proxy=proxy)


def _not_counted(verb: str, plural: str, code: str) -> None:
    """The page has no metrics of its requests to the API server."""
