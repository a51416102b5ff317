"""Selects items by what they contain and how they failed. Pure.

Flags of the command line, fields of the page's forms and queries, and their checks are made of ``FILTERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from claimq.model import Located, State
from claimq_admin.selection.header_filter import HeaderFilter, parse_header_filter
from claimq_admin.selection.payload_filter import PayloadFilter, parse_payload_filter
from claimq_admin.text import age
from claimq_process.duration import format_duration, parse_duration

_MOST_GIVEN_UP = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Filter:
    """One way to select items. ``name``: of the field of :class:`ItemFilter`, and of the page's field.

    ``words``: the filter in a sentence. ``help``: the end of the help of its ``flag``. ``passes``: whether an item
    passes for a value, at an instant by the clock of its queue.
    """

    name: str
    words: Callable[[Any], str]
    metavar: str
    help: str
    passes: Callable[[Any, Located, float], bool]
    parse: Callable[[str], Any] = str
    show: Callable[[Any], str] = str
    flag: str = ""

    def read(self, text: str) -> Any:
        """The value of a text. ValueError with the fix; also for an empty one: without the filter more would pass."""
        if not text:
            raise ValueError("it is empty; give a value, or omit it for all items")
        return self.parse(text)


def _count(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text) if text.isascii() and text.isdigit() else -1
        if not least <= number <= _MOST_GIVEN_UP:
            raise ValueError(
                f"{text[:100]!r} is no count; give a whole number from {least} to {_MOST_GIVEN_UP:,}"
            )
        return number

    return parse


FILTERS = (
    Filter(
        "error", "error contains {!r}".format, "TEXT", "items whose last error has this text, in any case.",
        lambda text, located, _: text.casefold() in (located.item.last_error or "").casefold(),
    ),
    Filter(
        "reason", "reason {!r}".format, "TEXT",
        "failed items with this reason, as `claimq failed reasons` prints it.",
        lambda reason, located, _: reason == located.item.failed_reason,
    ),
    Filter(
        "client", "client {}".format, "CLIENT", "the items of this client.",
        lambda client, located, _: client == located.item.client,
    ),
    Filter(
        "header", "header {}".format, "NAME[=VALUE]", "items that have this header, or have it with VALUE.",
        lambda header, located, _: header.passes(located.item), parse_header_filter,
    ),
    Filter(
        "min_age", lambda seconds: f"{age(seconds)} old or older", "DURATION",
        "items that failed or, if they have not, were enqueued at least this long ago.",
        lambda seconds, located, now: entered_at(located) <= now - seconds, parse_duration, format_duration,
    ),
    Filter(
        "min_given_up_count", "given up {} times or more".format, "N",
        "items that were given up at least this often.",
        lambda least, located, _: located.item.given_up_count >= least, _count(0),
    ),
    Filter(
        "max_given_up_count", "given up {} times or less".format, "N",
        "items that were given up at most this often.",
        lambda most, located, _: located.item.given_up_count <= most, _count(1),
    ),
    Filter(
        "payload", lambda payload: f"payload has {payload.text}", "PATH[=VALUE]",
        "items in whose payload this JSONPath finds something, or VALUE ($.order.country=DE).",
        lambda payload, located, _: payload.passes(located.item.payload), parse_payload_filter, flag="--json",
    ),
)  # fmt: skip
"""All filters, the cheapest first."""
PAGE_FILTERS = {filter_.name: filter_ for filter_ in FILTERS if filter_.name != "payload"}
"""Those of the web page: a JSONPath of one user could keep it from answering the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFilter:
    """Which items: those that pass every filter that is set.

    ``error``: a part of the last error, in any case; ``reason``: that of a failed item. ``payload``: what
    the payload has, as JSON. ``header``: a header that the item has. ``min_age``: seconds since the failure, for other
    items since they were enqueued.
    """

    error: str | None = None
    reason: str | None = None
    client: str | None = None
    payload: PayloadFilter | None = None
    header: HeaderFilter | None = None
    min_age: float | None = None
    min_given_up_count: int | None = None
    max_given_up_count: int | None = None

    def values(self) -> Iterator[tuple[Filter, Any]]:
        """The filters that are set, with their values."""
        for filter_ in FILTERS:
            if (bound := getattr(self, filter_.name)) is not None:
                yield filter_, bound

    def passes(self, item: Located, now: float) -> bool:
        """Whether the item passes. ``now``: by the clock of its queue."""
        return all(filter_.passes(bound, item, now) for filter_, bound in self.values())

    def only(self, *names: str) -> bool:
        """Whether no filter but these is set."""
        return all(filter_.name in names for filter_, _ in self.values())

    def __str__(self) -> str:
        return ", ".join(filter_.words(bound) for filter_, bound in self.values()) or "all"


def entered_at(located: Located) -> float:
    """The instant of its failure; of an item that has not failed, when it was enqueued."""
    return (located.failed_at or 0.0) if located.state is State.FAILED else located.item.enqueued_at


def fields_of(selector: ItemFilter) -> dict[str, str]:
    """The fields of a form with this filter."""
    return {filter_.name: filter_.show(bound) for filter_, bound in selector.values()}
