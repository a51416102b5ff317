"""The options of commands that enqueue items, made of their declarations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import click

from claimq.item_options import ITEM_OPTIONS, OF_ENQUEUE, Form, ItemOption, checked_headers
from claimq_cli.commands.options.option_types import Duration, Instant, with_options

Flag = Callable[[Any], Any]


def _headers(
    context: click.Context, option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, str] | None:
    """The headers of ``NAME=VALUE`` words; None without any."""
    words = [pair.partition("=") for pair in pairs]
    headers = {name: text for name, _, text in words}
    if bare := [name for name, has_value, _ in words if not has_value]:
        raise click.BadParameter(f'"{bare[0]}" has no value; write NAME=VALUE', context, option)
    if len(headers) < len(words):
        raise click.BadParameter("a name is given twice; give each header once", context, option)
    try:
        return checked_headers(headers) or None
    except ValueError as error:
        raise click.BadParameter(str(error), context, option) from None


def _end(
    context: click.Context, option: click.Parameter, expires_in: float | None
) -> timedelta | float | None:
    """The end that either of two flags sets."""
    instant: float | None = context.params.pop(f"{option.name}_at", None)
    if expires_in is not None and instant is not None:
        raise click.BadParameter(f"excludes --{option.name}; give only one of them", context, option)
    return instant if expires_in is None else timedelta(seconds=expires_in)


def _flags(option: ItemOption) -> tuple[Flag, ...]:
    name = f"--{option.name.replace('_', '-')}"
    match option.form:
        case Form.HEADERS:
            text = "Header of the items; may be given several times."
            return (
                click.option(
                    "--header", "headers", metavar="NAME=VALUE", multiple=True, callback=_headers, help=text
                ),
            )
        case Form.INSTANT:
            at: dict[str, Any] = {"type": Instant(), "metavar": "INSTANT", "is_eager": True}
            within: dict[str, Any] = {"type": Duration(), "metavar": "DURATION", "callback": _end}
            return (
                click.option(name, f"{option.name}_at", help=option.description, **at),
                click.option("--expires-in", option.name, help="The same, from now.", **within),
            )
        case Form.COUNT:
            most = click.IntRange(option.least, option.most)
            return (click.option(name, type=most, metavar="N", help=option.description),)
        case Form.CHOICE:
            return (click.option(name, type=click.Choice(option.choices), help=option.description),)
        case Form.TEXT:
            return (click.option(name, metavar="TEXT", help=option.description),)


_OPTIONS: tuple[Flag, ...] = (
    click.option("--client", metavar="CLIENT", help="Client of the items. Clients take turns."),
    click.option("--delay", type=Duration(), metavar="DURATION", help="Delay the items: 30s, 5m."),
    click.option(
        "--at",
        type=Instant(),
        metavar="INSTANT",
        help="Delay the items until this instant: 2030-01-31T09:00:00Z, or Unix seconds.",
    ),
    *(flag for option in ITEM_OPTIONS for flag in _flags(option)),
)


def item_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options for all that :class:`claimq.NewItem` has beside payload and id. The command gets those that are given as
    ``options``, a :class:`claimq.ItemOptions`."""

    @functools.wraps(command)
    def choose(*args: Any, **arguments: Any) -> Any:
        options = {name: arguments.pop(name) for name in OF_ENQUEUE if name in arguments}
        options = {name: value for name, value in options.items() if value is not None}
        return command(*args, options=options, **arguments)

    return cast("Callable[..., Any]", with_options(choose, _OPTIONS))
