"""Commands that change a queue as a whole: pause, resume, release, flush."""

from __future__ import annotations

import click

from claimq.model import Reason, State
from claimq_cli.commands.context import Context, with_context
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.output.answers import count


@click.command()
@click.argument("name")
@with_context
async def pause(context: Context, name: str) -> None:
    """Let the queue NAME give no claims until `claimq resume`. What is in hand can be finished."""
    async with context.changed_queue(name) as queue:
        await queue.pause()
    context.answers.give({"queue": name, "paused": True}, f"{name}: paused")


@click.command()
@click.argument("name")
@with_context
async def resume(context: Context, name: str) -> None:
    """End a pause of the queue NAME."""
    async with context.changed_queue(name) as queue:
        await queue.resume()
    context.answers.give({"queue": name, "paused": False}, f"{name}: resumed")


@click.command()
@click.argument("name")
@click.argument("worker")
@click.option("--interrupted", is_flag=True, help="Not its fault: uncounted, to the head of main.")
@click.option("--error", default="its worker died", show_default=True, help="What the items remember.")
@with_context
async def release(context: Context, name: str, worker: str, interrupted: bool, error: str) -> None:
    """Give back at once what WORKER holds of the queue NAME. Only for a worker that is certainly dead."""
    reason = Reason.INTERRUPTED if interrupted else Reason.CRASHED
    async with context.changed_queue(name) as queue:
        done = await queue.release_worker(worker, reason, error)
    document = {
        "queue": name,
        "worker": worker,
        "requeued": done.requeued,
        "delayed": done.delayed,
        "failed": done.failed,
        "unclaimed": done.unclaimed,
        "total": done.total,
    }
    parts = [
        f"{document[key]} {key}" for key in ("requeued", "delayed", "failed", "unclaimed") if document[key]
    ]
    context.answers.give(
        document, f"{name}: {count(done.total)} given back" + (f" ({', '.join(parts)})" if parts else "")
    )


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Confirm; nothing is removed without it.")
@with_context
async def flush(context: Context, name: str, yes: bool) -> None:
    """Remove every item of the queue NAME, in every state, for good. Claims in hand become lost."""
    if not yes:
        raise CommandError(f"this removes every item of {name} for good; say so with --yes", USAGE)
    async with context.changed_queue(name) as queue:
        gone = await queue.flush()
    document = {"queue": name, "removed": {state.value: gone[state] for state in State}}
    context.answers.give(document, f"{name}: {count(sum(gone.values()))} removed")
