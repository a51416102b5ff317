"""`claimq web`: serves the web page that shows queues and items."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import click

import claimq
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.queue_argument import QueueArgument
from claimq_cli.commands.queue_names import check_exists
from claimq_cli.commands.web_options import Users, users_options
from claimq_cli.errors import UNAVAILABLE, USAGE, CommandError
from claimq_cli.queue_reads import local_decisions
from claimq_cli.stop_signals import stopping
from claimq_cli.web.listening import opened, url_of

if TYPE_CHECKING:
    from claimq_cli.web.website import Site

DEFAULT_ADDRESS = "127.0.0.1:7380"


@click.command("web")
@click.argument("names", nargs=-1, cls=QueueArgument)
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Address of the page (default: {DEFAULT_ADDRESS}, or a free port if that one is in use).",
)
@click.option(
    "--hostname",
    "hostnames",
    metavar="NAME",
    multiple=True,
    help="A name by which users open the page, for instance that of a proxy; can be repeated.",
)
@click.option(
    "--in-cluster",
    is_flag=True,
    help="Show the ReliableQueues of the cluster that this runs in. Users log in with tokens of Kubernetes.",
)
@click.option(
    "--only-namespace",
    "namespaces",
    metavar="NAMESPACE",
    multiple=True,
    help="With --in-cluster: show only this namespace; can be repeated (default: all).",
)
@users_options
@with_context
async def web(
    context: Context,
    names: tuple[str, ...],
    listen: str | None,
    hostnames: tuple[str, ...],
    in_cluster: bool,
    namespaces: tuple[str, ...],
    users: Users,
) -> None:
    """Serve a web page with the queues NAMES or all known ones.

    It runs until Ctrl-C. The page shows lengths, rates, workers and items. Without --actions it changes nothing.
    Without --actions and --users it has no login, and every user of this machine can open it.

    \b
    claimq web
    claimq web --actions
    claimq web --redis redis://db:6379/0 --listen 127.0.0.1:9000
    claimq web --in-cluster --listen 0.0.0.0:7380 --actions
    """
    from claimq_cli.web.server import served

    if in_cluster and (names or context.url or context.data or context.cluster):
        raise CommandError("--in-cluster goes with no queue and no server; use --only-namespace", USAGE)
    if namespaces and not in_cluster:
        raise CommandError("--only-namespace goes with --in-cluster; use --namespace", USAGE)
    allow_remote = in_cluster or users.are_checked or users.without_login
    listening, host = opened(listen, default=DEFAULT_ADDRESS, allow_remote=allow_remote)
    with listening:
        made = _cluster_site(users, namespaces) if in_cluster else _server_site(context, names, users)
        async with (
            made as (site, token),
            stopping() as stop,
            site.running(),
            served(site.app(host, *hostnames), listening),
        ):
            url = url_of(listening)
            said = [f"web page: {url} (Ctrl-C stops it)"]
            said += [f"log in with the token {token}"] if token else []
            context.answers.give({"url": url, "token": token}, *said)
            await stop.wait()


def _not_counted(verb: str, plural: str, code: str) -> None:
    """The page has no metrics of its requests to the API server."""


@asynccontextmanager
async def _server_site(
    context: Context, names: tuple[str, ...], users: Users
) -> AsyncGenerator[tuple[Site, str | None]]:
    """The page of the chosen server, and the token that was made for it."""
    from claimq_cli.web.queues import ServerQueues
    from claimq_cli.web.website import Site

    logins, token = users.logins()
    is_one = len(names) == 1 or (names and context.cluster is None)
    chosen = await context.chosen(names[0] if is_one else None)
    async with claimq.connect(settings=chosen.settings) as server:
        await server.ping()
        for name in names:
            await check_exists(server, server.queue(chosen.queue_name(name)))
        shows_decisions = chosen.queues and context.cluster is None
        decisions = (lambda: local_decisions(context.data)) if shows_decisions else dict
        shown = [chosen.queue_name(name) for name in names] or list(chosen.queues.values())
        queues = ServerQueues(server, shown, decisions)
        site = Site(queues, logins, may_act=users.may_act, proxy=users.proxy)
        yield site, token


@asynccontextmanager
async def _cluster_site(users: Users, namespaces: tuple[str, ...]) -> AsyncGenerator[tuple[Site, str | None]]:
    """The page of the ReliableQueues of the cluster. CommandError if its API server cannot be used."""
    from claimq_cli.cluster.granted import granted
    from claimq_cli.web.cluster_queues import ClusterQueues
    from claimq_cli.web.login import Logins
    from claimq_cli.web.reviews import ReviewedAccess, TokenLogin
    from claimq_cli.web.token_checks import TokenChecks
    from claimq_cli.web.website import Site
    from claimq_spec.certificates import certificate_directory
    from claimq_spec.deep_json import accept_deep_json
    from claimq_spec.kubernetes_api.client import KubernetesClient
    from claimq_spec.kubernetes_api.port import ClusterError

    users.refuse_own_users()
    accept_deep_json()
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(certificate_directory())
        try:
            cluster = await KubernetesClient.connect(_not_counted, manager="claimq-web")
            stack.push_async_callback(cluster.close)
            queues = ClusterQueues(cluster, directory, namespaces, granted())
            stack.push_async_callback(queues.close)
            await queues.refresh()
        except ClusterError as error:
            raise CommandError(str(error), UNAVAILABLE) from error
        logins = Logins(
            TokenChecks(TokenLogin(cluster)),
            hint="A token of Kubernetes, for instance from: kubectl create token NAME --namespace NAMESPACE",
        )
        access = ReviewedAccess(cluster, may_act=users.may_act)
        await stack.enter_async_context(queues.running())
        may_act, proxy = users.may_act, users.proxy
        yield (
            Site(queues, logins, may_act=may_act, access=access, proxy=proxy),
            None,
        )
