"""Commands that only read: status, queues, peek, items, busy, clients, find, workers, url."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace

import click

import claimq
from claimq.address.redis_url import parse_url
from claimq.errors import ClaimqError
from claimq.model import ClientInfo, Item, Located, Snapshot, State, WorkerInfo
from claimq_admin.errors import NOT_DONE, USAGE, CommandError
from claimq_admin.reads import documents
from claimq_admin.reads.queue_reads import longest_claims, status_of, workers_of
from claimq_admin.text import age, instant, option_texts, payload
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import number_option, offset_option
from claimq_cli.commands.options.queue_argument import optional_queue_argument, queue_argument
from claimq_cli.commands.options.queue_names import check_exists
from claimq_cli.commands.options.sources import Source

STATES = click.Choice([state.value for state in State])


@click.command()
@optional_queue_argument
@with_context
async def status(context: Context, name: str | None) -> None:
    """Show lengths, ages and workers of one queue or all queues.

    \b
    claimq status
    claimq status thumbnails -o json
    claimq -n shop status
    """

    async def read(source: Source) -> list[tuple[str, Snapshot, list[WorkerInfo]]]:
        if name is not None:
            await source.check(name)
        names = [name] if name is not None else [*source.known] or await source.names()
        if not names:
            raise CommandError("this server has no list of queues; give the name of a queue", USAGE)
        return [(queue_name, *await status_of(source.queue(queue_name))) for queue_name in names]

    answers = await context.from_sources(name, read)
    statuses = [documents.status(*answer) for answer in answers]
    columns = [
        "queue",
        *(f">{state.value}" for state in State),
        ">oldest",
        ">done",
        ">workers",
        ">busy workers",
        "next due",
    ]
    context.answers.give_table(
        statuses[0] if name is not None else {"queues": statuses},
        columns,
        [_status_row(*answer) for answer in answers],
        each="" if name is not None else "queues",
    )


@click.command()
@with_context
async def queues(context: Context) -> None:
    """List the known queues of the server.

    The operator, `claimq up` and the commands that change a queue add its name to the list if their user is allowed to.

    \b
    claimq queues
    claimq queues -o name | xargs -n 1 claimq status
    """

    async def read(source: Source) -> list[tuple[str, Snapshot]]:
        return [
            (queue_name, await source.queue(queue_name).snapshot()) for queue_name in await source.names()
        ]

    answers = await context.from_sources(None, read)
    context.answers.give_table(
        {"queues": [documents.lengths(*answer) for answer in answers]},
        ["queue", *(f">{state.value}" for state in State)],
        [[name, *(f"{snapshot.lengths[state]:,}" for state in State)] for name, snapshot in answers],
        nothing="this server has no list of queues",
        each="queues",
    )


def _status_row(name: str, snapshot: Snapshot, workers: list[WorkerInfo]) -> list[str]:
    return [
        f"{name} (paused)" if snapshot.paused else name,
        *(f"{snapshot.lengths[state]:,}" for state in State),
        age(snapshot.ages[State.MAIN]),
        f"{snapshot.counters['done']:,}",
        f"{len(workers):,}",
        f"{sum(worker.busy > 0 for worker in workers):,}",
        age(snapshot.next_due_in),
    ]


@click.command()
@queue_argument
@number_option(10)
@click.option("--client", metavar="CLIENT", help="Only the items of this client.")
@with_context
async def peek(context: Context, name: str, number: int, client: str | None) -> None:
    """Show the items of the queue NAME that are claimed next.

    \b
    claimq peek thumbnails
    claimq peek thumbnails --client acme --limit 100
    """
    async with context.read_queue(name) as queue:
        items = await queue.peek(number, client=client)
        length = await (queue.length() if client is None else queue.client_length(client))
    context.answers.give_table(
        {
            "queue": name,
            "client": client,
            "length": length,
            "items": [documents.item(item) for item in items],
        },
        ["id", "client", "enqueued", ">requeued", "~payload"],
        [_item_row(item) for item in items],
        nothing=f"{name}: no items in main",
        each="items",
    )


def _item_row(item: Item) -> list[str]:
    return [item.id, item.client or "-", instant(item.enqueued_at), str(item.requeue_count), payload(item)]


@click.command()
@queue_argument
@click.argument("state", type=STATES)
@number_option(20)
@offset_option
@with_context
async def items(context: Context, name: str, state: str, number: int, offset: int) -> None:
    """List the items of the queue NAME that are in STATE.

    Items in main are in claim order, busy ones ordered by lease end, delayed ones by due time, failed ones by the time
    of the failure.

    \b
    claimq items thumbnails delayed
    claimq items thumbnails main --limit 100 --offset 200 -o ndjson
    """
    async with context.read_queue(name) as queue:
        items = await queue.items(state, number, offset=offset)
    context.answers.give_table(
        {"queue": name, "state": state, "items": [documents.located(located) for located in items]},
        ["id", "since", "until", "worker", ">requeued", ">crashed", "~payload"],
        [_located_row(located) for located in items],
        nothing=f"{name}: no items in {state}",
        each="items",
    )


def _located_row(located: Located) -> list[str]:
    since = located.failed_at or located.claimed_at or located.item.enqueued_at
    return [
        located.name if located.state is State.FAILED else located.item.id,
        instant(since),
        instant(located.lease_until or located.due_at),
        located.worker or "-",
        str(located.item.requeue_count),
        str(located.item.crash_count),
        payload(located.item),
    ]


@click.command()
@queue_argument
@number_option(20)
@with_context
async def busy(context: Context, name: str, number: int) -> None:
    """Show the claimed items of the queue NAME, longest claim first.

    Each item has its worker, how long it has been claimed, the end of its lease and its counters. `claimq items NAME
    busy` has the same items ordered by lease end, and `claimq find NAME ID` all details of one.

    \b
    claimq busy thumbnails
    claimq busy thumbnails --limit 5 --output json
    """
    async with context.read_queue(name) as queue:
        snapshot = await queue.snapshot()
        claims = await longest_claims(queue, number, snapshot.lengths[State.BUSY])
    context.answers.give_table(
        {
            "queue": name,
            "state": State.BUSY.value,
            "now": snapshot.now,
            "items": [documents.located(claim) for claim in claims],
        },
        [
            "id",
            "worker",
            ">busy for",
            "lease until",
            ">requeued",
            ">failed",
            ">crashed",
            ">interrupted",
            "~payload",
        ],
        [_busy_row(claim, snapshot.now) for claim in claims],
        each="items",
        nothing=f"{name}: no items in busy",
    )


def _busy_row(claim: Located, now: float) -> list[str]:
    item = claim.item
    counts = (item.requeue_count, item.fail_count, item.crash_count, item.interrupted_count)
    return [
        item.id,
        claim.worker or "-",
        age(None if claim.claimed_at is None else max(now - claim.claimed_at, 0.0)),
        instant(claim.lease_until),
        *(f"{count:,}" for count in counts),
        payload(item),
    ]


@click.command()
@queue_argument
@click.argument("client", required=False)
@number_option(100)
@with_context
async def clients(context: Context, name: str, client: str | None, number: int) -> None:
    """Show how many items of each client wait in the queue NAME.

    The clients with the most items come first; with CLIENT only this client is shown. Items without a client are shown
    as "-". `claimq peek NAME --client CLIENT` shows a client's next items, and `claimq flush NAME --client CLIENT`
    removes its items in main.

    \b
    claimq clients thumbnails
    claimq clients thumbnails acme
    """
    async with context.read_queue(name) as queue:
        if client is None:
            infos = await queue.clients()
        else:
            infos = [ClientInfo(client, await queue.client_length(client))]
    rows = [info for info in infos[:number] if info.length]
    context.answers.give_table(
        {
            "queue": name,
            "client_count": sum(info.client is not None and info.length > 0 for info in infos),
            "clients": [asdict(info) for info in infos[:number]],
        },
        ["client", ">items"],
        [[info.client or "-", f"{info.length:,}"] for info in rows],
        each="clients",
        nothing=f"{name}: no items in main" if client is None else f"{name}: no items of {client} in main",
    )


@click.command()
@queue_argument
@click.argument("id")
@with_context
async def find(context: Context, name: str, id: str) -> int | None:  # noqa: A002 - the name that click shows
    """Show the item ID of the queue NAME: state, holder, history.

    `claimq find` and `claimq item show` are the same.

    \b
    claimq find thumbnails order-4711
    claimq item show thumbnails order-4711 -o json
    """
    async with context.read_queue(name) as queue:
        located = await queue.find(id)
    if located is None:
        raise CommandError(f"{name} has no item {id}: it is done, was removed, or never existed", NOT_DONE)
    context.answers.give({"queue": name, **documents.located(located)}, *described(located))
    return None


def described(located: Located) -> list[str]:
    """All details of an item, as lines for people."""
    item = located.item
    counts = f"requeued {item.requeue_count}, failed {item.fail_count}, crashed {item.crash_count}, "
    counts += f"interrupted {item.interrupted_count}, given up {item.given_up_count}"
    facts = {
        "id": item.id,
        "state": located.state.value,
        "held by": located.worker,
        "claimed": instant(located.claimed_at) if located.claimed_at else None,
        "lease until": instant(located.lease_until) if located.lease_until else None,
        "due": instant(located.due_at) if located.due_at else None,
        "failed": instant(located.failed_at) if located.failed_at else None,
        "client": item.client,
        **option_texts(item),
        "enqueued": f"{instant(item.enqueued_at)} (first {instant(item.first_enqueued_at)})",
        "counts": counts,
        "last error": item.last_error,
        "payload": payload(item),
    }
    shown = {f"{name}:": value for name, value in facts.items() if value is not None}
    width = max(12, *map(len, shown)) + 1
    lines = [f"{name:<{width}}{value}" for name, value in shown.items()]
    headers = [f"{name}: {value}" for name, value in item.header_pairs]
    history = [
        f"{instant(entry.at)}  {entry.kind}  {entry.worker}  {entry.error}".rstrip() for entry in item.history
    ]
    return (
        lines
        + _block("headers", headers)
        + _block("detail", (item.error_detail or "").strip("\n").split("\n"))
        + _block("history", history)
    )


def _block(heading: str, lines: Sequence[str]) -> list[str]:
    """Lines after a heading; none if there is no text."""
    headings = [f"{heading}:", *[""] * len(lines)]
    return [f"{first:<13}{line}" for first, line in zip(headings, lines, strict=False)] if any(lines) else []


@click.command()
@queue_argument
@with_context
async def workers(context: Context, name: str) -> None:
    """List the workers of the queue NAME.

    Those that hold claims or were seen within the last hour. Commands and web pages that act on items have names that
    begin with "by-hand.", and are listed only while they hold one.

    \b
    claimq workers thumbnails
    """
    async with context.read_queue(name) as queue:
        workers = await workers_of(queue)
    context.answers.give_table(
        {"queue": name, "workers": [asdict(worker) for worker in workers]},
        ["worker", ">busy", "last seen"],
        [[worker.worker, f"{worker.busy:,}", instant(worker.last_seen_at)] for worker in workers],
        nothing=f"{name}: no worker within the last hour",
        each="workers",
    )


@click.command()
@optional_queue_argument
@click.option("--show-password", is_flag=True, help="Print the URL even if it contains a password.")
@with_context
async def url(context: Context, name: str | None, show_password: bool) -> None:
    """Print the URL of the server that the other commands use.

    With NAME: of the server of this queue, which must exist there if the server answers.

    \b
    export CLAIMQ_REDIS_URL="$(claimq url)"    # for a program
    claimq url thumbnails
    """
    if context.cluster is not None:
        raise CommandError(
            "the server of a ReliableQueue can be reached only while a command forwards its port", USAGE
        )
    chosen = await context.chosen(name)
    url = chosen.settings.url
    if parse_url(url).password is not None and not show_password:
        raise CommandError("the URL contains a password; print it with --show-password", NOT_DONE)
    if name is not None:
        with suppress(ClaimqError):
            async with claimq.connect(settings=replace(chosen.settings, retry_for=0.001)) as server:
                await check_exists(server, server.queue(chosen.queue_name(name)))
    context.answers.give({"url": url}, url)
