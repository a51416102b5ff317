"""All details of an item, for people."""

from __future__ import annotations

from collections.abc import Sequence

from claimq.waiting.reasons import Where
from claimq_admin.text import ahead_text, instant, option_texts, payload


def described(where: Where, waits: str = "") -> list[str]:
    """All details of an item, as lines for people. ``waits``: why it waits."""
    located, item = where.located, where.located.item
    counts = f"requeued {item.requeue_count}, failed {item.fail_count}, crashed {item.crash_count}, "
    counts += f"interrupted {item.interrupted_count}, postponed {item.postponed_count}, "
    counts += f"given up {item.given_up_count}"
    facts = {
        "id": item.id,
        "state": located.state.value,
        "waits": waits or None,
        "before it": ahead_text(where),
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
