"""The audit log of a queue: who did what to it by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from claimq.arguments import is_page, optional_count, text
from claimq.queue.queue_part import QueuePart, instant_ms

_LONGEST = {"actor": 128, "action": 64, "target": 400}
"""In characters; an entry has at most 4,096 bytes."""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """An entry of a queue's audit log: who did what by hand, to what, to how many items (None: not known), and when."""

    at: float
    actor: str
    action: str
    target: str
    count: int | None


class AuditLog(QueuePart):
    """Actions that people take on a queue and its items. Programs that offer such actions record them here."""

    async def record_action(
        self,
        actor: str,
        action: str,
        target: str = "",
        *,
        count: int | None = None,
        adds: bool = False,
    ) -> None:
        """Adds an entry to the audit log, with the present time of the queue's clock.

        ``actor``: who acts, for example a user and a machine. ``target``: what it is done to, for example the id of an
        item or a filter. ``count``: how many items it is done to, if that is known. Record an action before taking it:
        what cannot be recorded then does not happen, and no crash hides what did. Texts are cut at 128, 64 and 400
        characters. The log keeps the last 1,000 entries, and up to 10,000 of the last 30 days. ``adds``: the action
        only adds items to the queue. Such entries are kept apart, the last 1,000 of them, and push out no others. A
        flush leaves the log; deleting the queue removes it. Raises StoreUnavailable. O(1).
        """
        values = {"actor": actor, "action": action, "target": target}
        entry: dict[str, Any] = {name: text(name, value)[: _LONGEST[name]] for name, value in values.items()}
        entry["count"] = optional_count("count", count)
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        with self._connection.lanes.new_call() as call:
            await self._connection.run("record_action", [self._keys.main], [*call, line, int(adds)])

    async def audit_log(self, count: int = 100, *, offset: int = 0) -> list[AuditRecord]:
        """The entries of the audit log, newest first. Raises StoreUnavailable. O(offset + count)."""
        if not is_page(count, offset):
            return []
        with self._reading("audit log") as read:
            logs = [
                await read.reply(self._read("LRANGE", self._keys[log], 0, offset + count - 1))
                for log in ("audit", "added")
            ]
            changed, added = ([_record(line) for line in log] for log in logs)
        records = sorted(changed + added, key=lambda record: record.at, reverse=True) if added else changed
        return records[offset : offset + count]


def _record(line: bytes) -> AuditRecord:
    """An entry. Of one that another client has added, it has the parts that can be read."""
    at, _, document = line.partition(b" ")
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        parsed = None
    entry = cast("dict[str, Any]", parsed) if isinstance(parsed, dict) else {}
    words = {name: entry.get(name) for name in _LONGEST}
    number = entry.get("count")
    return AuditRecord(
        at=instant_ms(at) / 1000 if at.isdigit() else 0.0,
        count=number if isinstance(number, int) and not isinstance(number, bool) else None,
        **{name: value if isinstance(value, str) else "" for name, value in words.items()},
    )
