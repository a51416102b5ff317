"""Selects items by what they contain and how they failed, and groups them by why. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from claimq.model import Located, State
from claimq_admin.selection.header_filter import HeaderFilter
from claimq_admin.selection.payload_filter import PayloadFilter
from claimq_admin.text import age
from claimq_process.duration import format_duration

_LONGEST_REASON = 200
_DIGITS = re.compile(r"[0-9]+")


def reason_of(one: Located) -> str:
    """The first line of the error, with ``#`` for numbers, so that equal failures have equal reasons."""
    first = (one.item.last_error or "no error was given").strip().partition("\n")[0]
    return _DIGITS.sub("#", first[:_LONGEST_REASON])


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed items with the same reason."""

    reason: str
    count: int


def groups_of(items: Iterable[Located]) -> list[FailureGroup]:
    """The reasons with their numbers of items, most items first."""
    return [FailureGroup(*one) for one in Counter(map(reason_of, items)).most_common()]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFilter:
    """Which items: those that pass every filter that is set.

    ``error``: a part of the last error, in any case; ``reason``: what :func:`reason_of` makes of it. ``payload``: what
    the payload has, as JSON. ``header``: a header that the item has. ``min_age``: seconds since the failure, for other
    items since they were enqueued.
    """

    error: str = ""
    reason: str = ""
    client: str | None = None
    payload: PayloadFilter | None = None
    header: HeaderFilter | None = None
    min_age: float = 0.0
    min_given_up_count: int = 0
    max_given_up_count: int | None = None

    def passes(self, one: Located, now: float) -> bool:
        """Whether the item passes. ``now``: by the clock of its queue."""
        given_up = one.item.given_up_count
        return (
            self.error.casefold() in (one.item.last_error or "").casefold()
            and self.reason in ("", reason_of(one))
            and self.client in (None, one.item.client)
            and entered_at(one) <= now - self.min_age
            and given_up >= self.min_given_up_count
            and (self.max_given_up_count is None or given_up <= self.max_given_up_count)
            and (self.header is None or self.header.passes(one.item))
            and (self.payload is None or self.payload.passes(one.item.payload))
        )

    def only(self, *names: str) -> bool:
        """Whether no filter but these is set."""
        return replace(self, **{name: getattr(_ALL, name) for name in names}) == _ALL

    def __str__(self) -> str:
        words = [
            f"error contains {self.error!r}" if self.error else "",
            f"reason {self.reason!r}" if self.reason else "",
            f"client {self.client}" if self.client is not None else "",
            f"payload has {self.payload.text}" if self.payload else "",
            f"header {self.header}" if self.header else "",
            f"{age(self.min_age)} old or older" if self.min_age else "",
            f"given up {self.min_given_up_count} times or more" if self.min_given_up_count else "",
            f"given up {self.max_given_up_count} times or less"
            if self.max_given_up_count is not None
            else "",
        ]
        return ", ".join(word for word in words if word) or "all"


_ALL = ItemFilter()


def entered_at(one: Located) -> float:
    """The instant of its failure; of an item that has not failed, when it was enqueued."""
    return (one.failed_at or 0.0) if one.state is State.FAILED else one.item.enqueued_at


def fields_of(wanted: ItemFilter) -> dict[str, str]:
    """The fields of a form with this filter, but for ``payload``, which the web page does not take."""
    fields = {
        "error": wanted.error,
        "reason": wanted.reason,
        "client": wanted.client or "",
        "header": str(wanted.header or ""),
        "min_age": format_duration(wanted.min_age) if wanted.min_age else "",
        "min_given_up_count": str(wanted.min_given_up_count or ""),
        "max_given_up_count": "" if wanted.max_given_up_count is None else str(wanted.max_given_up_count),
    }
    return {name: text for name, text in fields.items() if text}
