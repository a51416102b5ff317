"""`claimq why`: shows the arithmetic of a queue's last scaling decision."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from claimq.arguments import did_you_mean
from claimq_admin.errors import NOT_DONE, UNAVAILABLE, CommandError
from claimq_admin.reads.decisions import decision_of, decision_rows
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import local_decisions
from claimq_admin.text import count, instant
from claimq_cli.cluster.kubectl import KIND, Kubectl, selected
from claimq_cli.commands.options.context import cluster_options, output_option
from claimq_cli.commands.options.queue_argument import queue_argument
from claimq_cli.output import terminal
from claimq_cli.output.answers import Answers
from claimq_process.timestamps import format_time, parse_time

_NO_DECISION = "no decision was made yet"


@click.command()
@queue_argument
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Show the queue of the `claimq up` with this state directory.",
)
@cluster_options
@output_option("table")
def why(name: str, data: Path | None, namespace: str | None, kube_context: str | None, output: str) -> None:
    """Show why the queue NAME has its number of workers.

    NAME is a queue of a running `claimq up`, or else a ReliableQueue, which is read with kubectl.

    \b
    claimq why thumbnails
    claimq -n shop why orders -o json
    """
    kubectl = selected(namespace, kube_context)
    decisions = local_decisions(data) if kubectl is None else {}
    decision = _local(name, data, decisions) if kubectl is None else None
    try:
        if decision is None:
            decision = decision_of((kubectl or Kubectl()).get(f"{KIND}/{name}"))
    except CommandError as error:
        if kubectl is not None:
            raise
        hint = did_you_mean(name, decisions)
        advice = hint or f"; without a manifest nothing scales it, and `claimq doctor {name}` checks it"
        message = f"no running `claimq up` has the queue {name}{advice} ({error})"
        raise CommandError(message, NOT_DONE if hint else error.exit_code) from error
    _show(decision, Answers(output))


def _local(name: str, data: Path | None, decisions: Mapping[str, Json]) -> Json | None:
    """The decision of a running local mode; None if none runs this queue. CommandError if --data has no such queue."""
    if name in decisions:
        return {"queue": name, **_with_instant(decisions[name])}
    if data is not None:
        raise CommandError(
            f"no `claimq up` with the queue {name} is running in {data}"
            f"{did_you_mean(name, decisions) or '; start it, or omit --data'}"
        )
    return None


def _with_instant(decision: Json) -> Json:
    return {**decision, "at": format_time(decision["at"])} if "at" in decision else decision


def _show(document: Json, answers: Answers) -> None:
    if "rule" not in document:
        message = f"{document['queue']}: {_NO_DECISION}; is the operator running?"
        raise CommandError(message, UNAVAILABLE)
    if answers.is_document:
        answers.give(document)
        return
    target = count(document["replicas"], "worker") if "replicas" in document else "the number is not changed"
    since = instant(parse_time(document.get("at")))
    terminal.say(f"{document['queue']}: {target} ({document['rule']}), since {since}")
    for name in ("attention", "longItem", "unready", "starting"):
        if name in document:
            terminal.say(document[name])
    terminal.say(document.get("reason", ""))
    if "limited" in document:
        terminal.say(f"limited: {document['limited']}")
    rows = decision_rows(document)
    if rows:
        terminal.say("")
        terminal.say_table(["what", ">value", ">±"], rows)
