"""Options of the programs that serve the page."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from claimq_web.users.login import ProxyHeaders, networks

actions_option = click.option(
    "--actions",
    "may_act",
    is_flag=True,
    help="Allow changes of items and queues. Users log in first.",
)
hostname_option = click.option(
    "--hostname",
    "hostnames",
    metavar="NAME",
    multiple=True,
    help="A name by which users open the page, for instance that of a proxy; can be repeated.",
)
_PROXY = (
    click.option(
        "--trust-proxy",
        "proxies",
        metavar="ADDRESS",
        multiple=True,
        help="Users log in at the proxy with this IP address or range, which names them in headers; can be repeated.",
    ),
    click.option(
        "--user-header",
        metavar="NAME",
        default="X-Forwarded-User",
        show_default=True,
        help="With --trust-proxy: the header with the name of the user.",
    ),
    click.option(
        "--group-header",
        metavar="NAME",
        default="",
        help="With --trust-proxy: the header with the user's groups, separated by commas, which it always sets.",
    ),
    click.option(
        "--user-prefix", metavar="TEXT", default="", help="With --trust-proxy: put before the names of users."
    ),
    click.option(
        "--group-prefix",
        metavar="TEXT",
        default="",
        help="With --trust-proxy: put before the names of groups.",
    ),
)


def proxy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a proxy where users log in. The command gets ``proxy``, a :class:`ProxyHeaders` or None."""

    @functools.wraps(command)
    def choose(
        *args: Any,
        proxies: tuple[str, ...],
        user_header: str,
        group_header: str,
        user_prefix: str,
        group_prefix: str,
        **others: Any,
    ) -> Any:
        proxy = None
        if proxies:
            proxy = ProxyHeaders(networks(proxies), user_header, group_header, user_prefix, group_prefix)
        return command(*args, proxy=proxy, **others)

    for option in reversed(_PROXY):
        choose = option(choose)
    return choose
