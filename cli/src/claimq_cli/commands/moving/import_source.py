"""Queues of other systems, as `claimq import --from` names them, and the form of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from claimq.arguments import did_you_mean
from claimq_admin.errors import USAGE, CommandError
from claimq_cli.migration.layout import Layout, Order
from claimq_cli.migration.layouts import RQ, BullMQ, PlainList, ReliableFIFO, Sidekiq

FORMS = ("jsonl", "csv")
_SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_LISTED = 10
KINDS = ("list", "fifo", "sidekiq", "rq", "bullmq")


def layout_of(text: str, *, prefix: str, next_end: str) -> Layout | None:
    """The layout of ``KIND:NAME``; None for a file. CommandError for options that the kind does not have."""
    kind, _, name = text.partition(":")
    is_known = kind in KINDS and bool(name)
    if prefix and not (is_known and kind in ("sidekiq", "bullmq")):
        raise CommandError("--prefix needs --from sidekiq:NAME or bullmq:NAME", USAGE)
    if next_end and not (is_known and kind == "list"):
        raise CommandError("--next-end needs --from list:KEY", USAGE)
    if not is_known:
        return None
    match kind:
        case "list":
            return PlainList(name, Order(next_end or "right"))
        case "fifo":
            return ReliableFIFO(name)
        case "sidekiq":
            return Sidekiq(name, prefix)
        case "rq":
            return RQ(name)
        case _:
            return BullMQ(name, prefix)


def form_of(source: str, form: str | None) -> str:
    """The form of a file: as given, or by its name. CommandError if it is unknown."""
    file_form = form or _SUFFIXES.get(PurePath(source).suffix.lower())
    if file_form is None:
        kinds = ", ".join(f"{kind}:NAME" for kind in KINDS)
        raise CommandError(
            f'--from "{source}" is neither one of {kinds} nor a file .jsonl or .csv; for another file or - add '
            "--format jsonl or csv",
            USAGE,
        )
    return file_form


def no_queue(layout: Layout, queues: Sequence[tuple[str, str]]) -> str:
    """The message that the server of the source has no queue of this name. ``queues``: some that it has, with their
    prefixes."""
    prefixes = {f"{name} --prefix {prefix}" if prefix else name for name, prefix in queues}
    names = sorted(prefixes - {layout.name}) if layout.kind != "bullmq" else sorted(prefixes)
    examples = ", ".join(f"{layout.kind}:{name}" for name in names[:_LISTED])
    has = f"it has {examples}" if names else f"it has no queue of the kind {layout.kind}"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    meant = did_you_mean(layout.name, sorted({name for name, _ in queues}))
    return f"the server of the source has no queue {layout.kind}:{layout.name}; {has}{more}{meant}"
