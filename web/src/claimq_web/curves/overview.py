"""The table of all queues: filtered, sorted and divided into pages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from claimq_admin.name_order import in_order
from claimq_admin.reads.decisions import noted
from claimq_web.curves.samples import Sample

PAGE = 50
_MOST_REASONS, _MOST_NAMES, _MOST_NAMESPACES = 20, 10, 500
SHOW = {"all": "all", "waiting": "with waiting items", "failed": "with failed items", "paused": "paused"}
_COLUMNS: Mapping[str, Callable[[Sample], float]] = {
    "main": lambda row: row.main,
    "busy": lambda row: row.busy,
    "delayed": lambda row: row.delayed,
    "failed": lambda row: row.failed,
    "oldest": lambda row: row.oldest_age,
}
_WITH_REASON = ("not ready", "too few workers")
_SORTS = ("notes", "name", *_COLUMNS)
_SHOWN: Mapping[str, Callable[[Sample], bool]] = {
    "all": lambda _: True,
    "waiting": lambda row: row.main > 0,
    "failed": lambda row: row.failed > 0,
    "paused": lambda row: bool(row.is_paused),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """Which queues are asked for, in which order. Invalid values are replaced by the defaults."""

    text: str = ""
    namespace: str = ""
    show: str = "all"
    sort: str = "notes"
    is_descending: bool = True
    page: int = 1

    @staticmethod
    def of(query: Mapping[str, str]) -> Selection:
        """The selection of a request."""
        sort, show = query.get("sort", ""), query.get("show", "")
        sort = sort if sort in _SORTS else "notes"
        order = query.get("order", "up" if sort == "name" else "down")
        return Selection(
            query.get("text", "")[:200],
            query.get("namespace", "")[:200],
            show if show in _SHOWN else "all",
            sort,
            order == "down",
            positive(query.get("page", "")),
        )

    def query(self, **changes: str | int) -> str:
        """The query of a link to this selection with changes; without the defaults."""
        order = "down" if self.is_descending else "up"
        kept = {"text": self.text, "namespace": self.namespace, "show": self.show, "sort": self.sort}
        fields = {**kept, "order": order, "page": self.page}
        return "?" + urlencode({name: value for name, value in (fields | changes).items() if value != ""})

    def page_link(self, number: int) -> str:
        """The query of a link to another page."""
        return self.query(page=number)

    def sorted_by(self, column: str) -> str:
        """The query of a link that sorts by the column: largest first, and the other way at the second click."""
        is_down = column != "name" if column != self.sort else not self.is_descending
        return self.query(sort=column, order="down" if is_down else "up", page=1)

    def aria_sort(self, column: str) -> str:
        """The value of ``aria-sort`` of a column."""
        if column != self.sort:
            return "none"
        return "descending" if self.is_descending else "ascending"


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list: ``number`` of ``last``, of ``total`` entries, with ``begin`` before it."""

    number: int
    last: int
    total: int
    begin: int

    @property
    def end(self) -> int:
        """How many entries the list has up to the end of a full page."""
        return self.number * PAGE

    @staticmethod
    def of(number: int, total: int, skip: int = 0) -> Page:
        """The page with this number, or the last one, without its first ``skip`` entries."""
        last = max(1, -(-total // PAGE))
        number = min(number, last)
        return Page(number, last, total, (number - 1) * PAGE + skip)


def selected(
    samples: Mapping[str, Sample], selection: Selection, noted: Collection[str] = ()
) -> tuple[list[str], Page]:
    """The names of the queues on the selected page. ``noted``: those with notes, which come first by default."""
    names = [
        name
        for name, sample in samples.items()
        if selection.text.lower() in name.lower()
        and selection.namespace in ("", namespace_of(name))
        and _SHOWN[selection.show](sample)
    ]
    names.sort(key=in_order)
    if selection.sort in _COLUMNS:
        column = _COLUMNS[selection.sort]
        names.sort(key=lambda name: column(samples[name]), reverse=selection.is_descending)
    elif selection.sort == "notes":
        names.sort(key=lambda name: name in noted, reverse=selection.is_descending)
    elif selection.is_descending:
        names.reverse()
    page = Page.of(selection.page, len(names))
    return names[page.begin : page.end], page


def namespace_of(name: str) -> str:
    """The namespace in the name of a queue, ``NAMESPACE.NAME``; empty for a name without one."""
    first, dot, _ = name.partition(".")
    return first if dot else ""


def namespaces_of(names: Iterable[str]) -> Sequence[str]:
    """The namespaces to choose from; none if there is no choice, or too many to list."""
    namespaces = sorted({namespace_of(name) for name in names} - {""})
    return namespaces if 1 < len(namespaces) <= _MOST_NAMESPACES else []


def warnings_of(sample: Sample, target: float | None, live_workers: int) -> Sequence[str]:
    """Warnings about a queue, each in a few words."""
    notes: list[str] = []
    if sample.is_paused:
        notes.append("paused")
    if target is not None and sample.oldest_age > target:
        notes.append("oldest item is over the target")
    if sample.main and not live_workers and not sample.is_paused:
        notes.append("no worker")
    if sample.failed:
        notes.append("failed items")
    return notes


def notes_of(warnings: Sequence[str], note: str, status: Mapping[str, Any]) -> Sequence[str]:
    """The notes on a queue in the list: the words for the conditions of its ReliableQueue, some with the reason, the
    note of its sample, and its warnings. A longer note replaces its own beginning."""
    words = noted(status.get("conditions") or ())
    notes = [f"{word}: {words[word].get('reason')}" if word in _WITH_REASON else word for word in words]
    notes += [note, "suspended" if status.get("suspend") else "", *warnings]
    return [
        text
        for text in dict.fromkeys(filter(None, notes))
        if not any(other.startswith(f"{text} ") for other in notes)
    ]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Queues that cannot be read for the same reason; ``names`` are the first of them."""

    why: str
    names: Sequence[str]
    count: int


def grouped(problems: Mapping[str, str]) -> Sequence[Unreadable]:
    """The queues that cannot be read by reason, the most frequent reasons first."""
    by_reason: dict[str, list[str]] = {}
    for name in sorted(problems):
        by_reason.setdefault(problems[name], []).append(name)
    groups = [Unreadable(why, names[:_MOST_NAMES], len(names)) for why, names in by_reason.items()]
    return sorted(groups, key=lambda group: -group.count)[:_MOST_REASONS]


def positive(text: str) -> int:
    """A whole number of at least 1; 1 for anything else."""
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 10 else 1
