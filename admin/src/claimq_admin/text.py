"""Values as text for people: durations, instants, counts, payloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from claimq.item_options import Form, set_options
from claimq.model import Item, Located, WorkerInfo
from claimq.waiting.reasons import Where
from claimq.waiting.texts import instant_text
from claimq_admin.escaping import safe
from claimq_process.duration import readable_duration

_SHOWN_PAYLOAD = 100
_SHOWN_REASONS = 3


def payload(source: Item | Located) -> str:
    """The first characters of a payload, or the size of one that was left out."""
    if isinstance(source, Located):
        if source.payload_size is not None:
            return f"({count(source.payload_size, 'byte')})"
        source = source.item
    text = source.payload[: 4 * _SHOWN_PAYLOAD + 4].decode("utf-8", "backslashreplace")
    shown = safe(text[: _SHOWN_PAYLOAD + 1])
    return shown if len(text) <= _SHOWN_PAYLOAD else shown[:_SHOWN_PAYLOAD] + "…"


def age(seconds: float | None) -> str:
    """A rounded duration; a dash for None."""
    return "-" if seconds is None else readable_duration(seconds)


def instant(at: float | None) -> str:
    """An instant, for tables; a dash for None, and for 0, which bare payloads have before their first claim."""
    return instant_text(at) if at else "-"


def option_texts(item: Item) -> dict[str, str]:
    """The options that an item has, without its headers, by their titles."""
    return {
        option.title: instant(value) if option.form is Form.INSTANT else str(value)
        for option, value in set_options(item)
        if option.form is not Form.HEADERS
    }


def ahead_text(where: Where) -> str | None:
    """How many items come before one in main; None elsewhere."""
    if where.ahead is None:
        return None
    return f"{where.ahead} of its client and priority, {where.ahead_of_all} of all in main"


def count(number: int, noun: str = "item") -> str:
    """``1 item``, ``2,000 items``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def known_text(number: int) -> str:
    """What follows the number of enqueued items: how many others were known already, if any."""
    return f", {count(number)} known already" if number else ""


def reasons_text(reasons: Mapping[str, int]) -> str:
    """The first of the reasons of failed items, with their counts: ``8,000 "Timeout: # s" and 2 other reasons``."""
    shown = [f'{number:,} "{safe(reason)}"' for reason, number in [*reasons.items()][:_SHOWN_REASONS]]
    more = len(reasons) - len(shown)
    return ", ".join(shown) + (f" and {count(more, 'other reason')}" if more else "")


def workers_text(workers: Sequence[WorkerInfo]) -> str:
    """How many workers there are, and how many of them hold claims: ``12 (3 busy)``."""
    busy = sum(worker.busy > 0 for worker in workers)
    return f"{len(workers):,} ({busy:,} busy)" if busy else f"{len(workers):,}"
