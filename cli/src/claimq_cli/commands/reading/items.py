"""`claimq items`: lists the items of a state."""

from __future__ import annotations

import click

from claimq import ReliableQueue
from claimq.model import Located, Snapshot, State
from claimq_admin.reads import documents
from claimq_admin.reads.queue_reads import SHOWN_PAYLOAD, first_matching
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.text import age, instant, payload
from claimq_cli.commands.changing.failed_changes import COLUMNS, row_of
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import number_option
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.commands.reading.item_selection import filters

_BUSY_COLUMNS = [
    "id", "worker", ">busy for", "lease until", ">requeued", ">failed", ">crashed", ">interrupted", "~payload",
]  # fmt: skip


@click.command()
@queue_argument
@click.argument("state", type=click.Choice([state.value for state in State]))
@number_option(20)
@click.option(
    "--offset", type=click.IntRange(0), help="Number of items to skip; orders busy items by lease end."
)
@filters()
@with_context
async def items(
    context: Context, name: str, state: str, number: int, offset: int | None, selector: ItemFilter
) -> None:
    """List the items of the queue NAME that are in STATE.

    Items in main are in claim order, busy ones from the longest claim on (with filters or --offset: by lease end),
    delayed ones ordered by due time, failed ones from the oldest failure on. With -o name only their ids are printed,
    for other commands:

    \b
    claimq items thumbnails busy
    claimq items thumbnails main --client acme --limit 100 --offset 200 -o ndjson
    claimq items thumbnails failed --error timeout --limit 1000 -o name | xargs claimq failed requeue thumbnails

    With -o json: `{"queue", "state", "now", "length", "items": [LOCATED...]}`. `length` is that of the state, and of
    the client if `--client` is the only filter of main.
    """
    of = State(state)
    async with context.queue(name) as queue:
        snapshot = await queue.snapshot()
        rows, length = await _page(queue, snapshot, of, number, offset, selector)
    is_filtered = length is None
    total = snapshot.lengths[of] if length is None else length
    context.answers.give_table(
        {
            "queue": name,
            "state": state,
            "now": snapshot.now,
            "length": total,
            "items": [documents.located(located) for located in rows],
        },
        *_table(of, rows, snapshot.now),
        nothing=f"{name}: "
        + (f"no item in {state} passes the filters" if is_filtered and total else f"no items in {state}"),
        each="items",
        total=0 if is_filtered else total,
    )


async def _page(
    queue: ReliableQueue,
    snapshot: Snapshot,
    state: State,
    number: int,
    offset: int | None,
    selector: ItemFilter,
) -> tuple[list[Located], int | None]:
    """The items to show, and of how many they are a part; None if that is unknown."""
    client = selector.client if state is State.MAIN and selector.only("client") else None
    if client is None and selector != ItemFilter():
        return await first_matching(
            queue, state, lambda row: selector.passes(row, snapshot.now), number, offset or 0
        ), None
    if state is State.BUSY and offset is None:
        return await queue.longest_claims(number, payload_limit=SHOWN_PAYLOAD), snapshot.lengths[state]
    length = snapshot.lengths[state] if client is None else await queue.client_length(client)
    return await queue.items(
        state, number, offset=offset or 0, client=client, payload_limit=SHOWN_PAYLOAD
    ), length


def _table(state: State, rows: list[Located], now: float) -> tuple[list[str], list[list[str]]]:
    """The columns of a state's items, and their rows."""
    match state:
        case State.FAILED:
            return COLUMNS[state], [row_of(located) for located in rows]
        case State.BUSY:
            return _BUSY_COLUMNS, [_busy_row(claim, now) for claim in rows]
        case _:
            since = ["enqueued"] if state is State.MAIN else ["enqueued", "due"]
            return ["id", "client", *since, ">requeued", "~payload"], [
                _waiting_row(located) for located in rows
            ]


def _waiting_row(located: Located) -> list[str]:
    item = located.item
    due = [instant(located.due_at)] if located.state is State.DELAYED else []
    return [
        item.id,
        item.client or "-",
        instant(item.enqueued_at),
        *due,
        str(item.requeue_count),
        payload(located),
    ]


def _busy_row(claim: Located, now: float) -> list[str]:
    item = claim.item
    counts = (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count)
    return [
        item.id,
        claim.worker or "-",
        age(None if claim.claimed_at is None else max(now - claim.claimed_at, 0.0)),
        instant(claim.lease_until),
        *(f"{count:,}" for count in counts),
        payload(claim),
    ]
