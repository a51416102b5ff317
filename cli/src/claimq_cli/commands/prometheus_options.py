"""The options of `claimq web` that say which Prometheus has the curves of queues."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from claimq_cli.commands.option_types import with_options
from claimq_cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    from claimq_cli.web.prometheus.history import Prometheus

_OPTIONS = (
    click.option(
        "--prometheus",
        "prometheus_url",
        metavar="URL",
        help="Draw the plots of a queue from this Prometheus, which scrapes the operator.",
    ),
    click.option(
        "--prometheus-token-file",
        "token_file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="With --prometheus: a file with a token, which is sent as a bearer token.",
    ),
    click.option(
        "--prometheus-ca-file",
        "ca_file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="With --prometheus: PEM file with the authorities of its certificate (default: those of the system).",
    ),
)


def prometheus_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a Prometheus, which the command gets as ``prometheus``; None without one."""

    @functools.wraps(command)
    def choose(
        *args: Any, prometheus_url: str | None, token_file: Path | None, ca_file: Path | None, **others: Any
    ) -> Any:
        if prometheus_url is None and (token_file is not None or ca_file is not None):
            raise CommandError("--prometheus-token-file and --prometheus-ca-file go with --prometheus", USAGE)
        prometheus = None if prometheus_url is None else _opened(prometheus_url, token_file, ca_file)
        return command(*args, prometheus=prometheus, **others)

    return with_options(choose, _OPTIONS)


def _opened(url: str, token_file: Path | None, ca_file: Path | None) -> Prometheus:
    from claimq_cli.web.prometheus.client import PrometheusClient, parse_url
    from claimq_cli.web.prometheus.history import Prometheus

    return Prometheus(PrometheusClient(parse_url(url), token_file, ca_file))
