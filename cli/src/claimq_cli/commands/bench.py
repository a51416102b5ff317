"""`claimq bench`: measures how fast a server is for this machine."""

from __future__ import annotations

import click

import claimq
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.queue_argument import optional_queue_argument
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.server_speed import Speed, measure, temporary_queue

_MOST_BYTES = 64 * 1024 * 1024


@click.command("bench")
@optional_queue_argument
@click.option(
    "--items",
    type=click.IntRange(100, 1_000_000),
    default=5000,
    show_default=True,
    help="Items of each measurement.",
)
@click.option("--size", type=click.IntRange(0), default=100, show_default=True, help="Bytes of a payload.")
@with_context
async def bench(context: Context, name: str | None, items: int, size: int) -> None:
    """Measure how fast the server of the queue NAME is.

    \b
    claimq bench
    claimq bench thumbnails --size 20000

    Without NAME it is the server of the other commands. The command makes a queue of its own, with at most ITEMS items
    at a time, and deletes it at the end.
    Other clients of the server are slower while it runs. What is measured includes the network and this machine.
    """
    if items * size > _MOST_BYTES:
        raise CommandError(
            f"{items:,} items of {size:,} bytes are more than 64 MiB; give fewer --items or a smaller --size",
            USAGE,
        )
    chosen = await context.chosen(name)
    base = "claimq-bench" if name is None else f"{chosen.queue_name(name)}.bench"
    async with claimq.connect(settings=chosen.settings) as server, temporary_queue(server, base) as queue:
        found = [speed async for speed in measure(queue, items=items, size=size)]
    rows = [[one.name, f"{one.rate:,.0f}", _ms(one.median), _ms(one.p99)] for one in found]
    context.answers.give_table(
        {"items": items, "size": size, "measurements": [_document(one) for one in found]},
        ["measured", ">items/s", ">median ms", ">p99 ms"],
        rows,
        each="measurements",
    )


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.2f}"


def _document(one: Speed) -> dict[str, object]:
    return {
        "name": one.name,
        "items": one.items,
        "items_per_second": one.rate,
        "median_seconds": one.median,
        "p99_seconds": one.p99,
    }
