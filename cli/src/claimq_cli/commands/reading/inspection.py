"""Commands that only read: status, queues, clients, workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from claimq.model import ClientInfo, Snapshot, State, WorkerInfo
from claimq.waiting.texts import pause_text
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.name_order import in_order
from claimq_admin.reads import documents
from claimq_admin.reads.decisions import needs_attention
from claimq_admin.reads.queue_reads import attention, has_problem, local_conditions, workers_and_live
from claimq_admin.text import age, count, instant, reasons_text, workers_text
from claimq_cli.commands.options.context import Context, with_context
from claimq_cli.commands.options.option_types import number_option
from claimq_cli.commands.options.queue_argument import optional_queue_argument, queue_argument
from claimq_cli.commands.options.sources import Source
from claimq_control.decide.pauses import CLOSED, PAUSED


@click.command()
@optional_queue_argument
@with_context
async def status(context: Context, name: str | None) -> None:
    """Show lengths, ages and workers of one queue or all queues.

    \b
    claimq status
    claimq status thumbnails -o json
    claimq -n shop status

    With -o json: `{"queue", "now", "paused", "attention", "neighbours", "lengths", "waiting", "ages", "next_due_in",
    "counters", "workers"}`; without NAME `{"queues": [...]}`. Of a queue of `claimq up` also `conditions`, of which the
    table has those that need attention.
    """
    conditions: dict[str, list[dict[str, Any]]] = {}
    reasons: dict[str, int] = {}

    async def read(source: Source) -> list[tuple[str, Snapshot, list[WorkerInfo]]]:
        if name is not None:
            await source.check(name)
        names = [name] if name is not None else [*source.known] or await source.names()
        if not names:
            raise CommandError("this server has no list of queues; give the name of a queue", USAGE)
        if source.known and context.cluster is None:
            known = local_conditions(context.data)
            conditions.update({queue: known[queue] for queue in names if queue in known})
        answers = await source.statuses(names)
        if name is not None and answers[0][0].lengths[State.FAILED]:
            reasons.update(await source.queue(name).failed_reasons())
        return [(queue_name, *answer) for queue_name, answer in zip(names, answers, strict=True)]

    answers = await context.from_sources(name, read)
    sentences = {queue: attention(snapshot, context.commands_about(queue)) for queue, snapshot, _ in answers}
    pauses = [pause_text(pause) for pause in answers[0][1].pauses] if name is not None else []
    texts = {queue: _texts(text, pauses, conditions.get(queue, [])) for queue, text in sentences.items()}
    answers.sort(key=lambda answer: (not (texts[answer[0]] or has_problem(answer[1])), in_order(answer[0])))
    statuses = [documents.status(*answer, sentences[answer[0]]) for answer in answers]
    for document in statuses:
        if document["queue"] in conditions:
            document["conditions"] = conditions[document["queue"]]
    notes = [f"{queue}: {text}" for queue, *_ in answers for text in texts[queue]] + _waiting_for_keys(
        answers
    )
    columns, rows = _status_table(answers)
    if reasons:
        notes.append(f"{name}: failed: {reasons_text(reasons)}; {context.command} failed reasons {name}")
    context.answers.give_table(
        statuses[0] if name is not None else {"queues": statuses},
        columns,
        rows,
        each="" if name is not None else "queues",
        notes=notes,
    )


def _texts(sentence: str, pauses: list[str], conditions: list[dict[str, Any]]) -> list[str]:
    """What needs attention now, other pauses, and what needs attention by the last pass of `claimq up`. That pass may
    not have seen the end of a pause."""
    reported = [condition for condition in conditions if condition["reason"] not in (PAUSED, CLOSED)]
    others = [pause for pause in pauses if pause not in sentence]
    return [*dict.fromkeys(filter(None, [sentence, *others, *needs_attention(reported)]))]


def _waiting_for_keys(answers: Sequence[tuple[str, Snapshot, list[WorkerInfo]]]) -> list[str]:
    counts = {name: snapshot.key_busy for name, snapshot, _ in answers}
    return [
        f"{name}: " + ("1 item waits for its key" if number == 1 else f"{count(number)} wait for their keys")
        for name, number in counts.items()
        if number
    ]


@click.command()
@with_context
async def queues(context: Context) -> None:
    """List the known queues of the server.

    `claimq status` shows which of them are paused or make no progress.

    The operator, `claimq up` and the commands that change a queue add its name to the list if their user is allowed to.

    \b
    claimq queues
    claimq queues -o name | xargs -n 1 claimq status

    With -o json: `{"queues": [{"queue", "lengths"}]}`.
    """

    async def read(source: Source) -> list[tuple[str, dict[State, int]]]:
        names = await source.names()
        return list(zip(names, await source.lengths(names), strict=True))

    if context.answers.is_names:
        names = await context.from_sources(None, lambda source: source.names(only_existing=False))
        context.answers.give_table({}, ["queue"], [[name] for name in names])
        return
    answers = await context.from_sources(None, read)
    context.answers.give_table(
        {"queues": [documents.lengths(*answer) for answer in answers]},
        ["queue", *(f">{state.value}" for state in State)],
        [[name, *(f"{lengths[state]:,}" for state in State)] for name, lengths in answers],
        nothing="this server has no list of queues",
        each="queues",
    )


def _status_table(
    answers: Sequence[tuple[str, Snapshot, list[WorkerInfo]]],
) -> tuple[list[str], list[list[str]]]:
    """Columns and rows. When the next item is due only if one is delayed, so that the table fits 80 columns."""
    columns = ["queue", *(f">{state.value}" for state in State), ">oldest", ">done", "workers"]
    rows = [_status_row(*answer) for answer in answers]
    if any(snapshot.next_due_in is not None for _, snapshot, _ in answers):
        columns.append("next due")
        rows = [[*row, age(answer[1].next_due_in)] for row, answer in zip(rows, answers, strict=True)]
    return columns, rows


def _status_row(name: str, snapshot: Snapshot, workers: list[WorkerInfo]) -> list[str]:
    return [
        f"{name} (paused)" if snapshot.paused else name,
        *(f"{snapshot.lengths[state]:,}" for state in State),
        age(snapshot.ages[State.MAIN]),
        f"{snapshot.counters['done']:,}",
        workers_text(workers),
    ]


@click.command()
@queue_argument
@click.argument("client", required=False)
@number_option(100)
@with_context
async def clients(context: Context, name: str, client: str | None, number: int) -> None:
    """Show how many items of each client wait in the queue NAME.

    The clients with the most items come first; with CLIENT only this client is shown. Items without a client are shown
    as "-". `claimq items NAME main --client CLIENT` shows a client's next items, and
    `claimq flush NAME --client CLIENT` removes its items in main.

    \b
    claimq clients thumbnails
    claimq clients thumbnails acme

    With -o json: `{"queue", "client_count", "clients": [{"client", "length"}]}`; `null` is the client of
    items without one.
    """
    async with context.queue(name) as queue:
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
        total=sum(info.length > 0 for info in infos),
    )


@click.command()
@queue_argument
@with_context
async def workers(context: Context, name: str) -> None:
    """List the workers of the queue NAME.

    Those that hold claims or were seen within the last hour; "ended" are those without claims that have not asked for
    items for 20 seconds. The kind "pod" is a worker pod of a ReliableQueue, "program" any other. Commands and web pages
    that act on items have names that begin with "by-hand.", and are listed only while they hold one.

    \b
    claimq workers thumbnails

    With -o json: `{"queue", "workers": [{"worker", "busy", "last_seen_at", "pod", "is_live"}]}`.
    """
    async with context.queue(name) as queue:
        workers = documents.workers_of(*await workers_and_live(queue))
    context.answers.give_table(
        {"queue": name, "workers": workers},
        ["worker", "kind", ">busy", "last seen", "state"],
        [
            [
                worker["worker"],
                "pod" if worker["pod"] else "program",
                f"{worker['busy']:,}",
                instant(worker["last_seen_at"]),
                "live" if worker["is_live"] else "ended",
            ]
            for worker in workers
        ],
        nothing=f"{name}: no worker within the last hour",
        each="workers",
    )
