"""The filter of items in the fields of a query or a form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from starlette.exceptions import HTTPException

from claimq.model import State
from claimq_admin.selection.header_filter import parse_header_filter
from claimq_admin.selection.item_filter import ItemFilter
from claimq_process.duration import parse_duration

LONGEST_TEXT = 1000
LONGEST_FILTER = 2000
_MOST_GIVEN_UP = 1_000_000_000
_FIELDS = {one.name for one in dataclasses.fields(ItemFilter)} - {"payload"} | {
    "action", "because", "form_token", "id", "rate", "state", "target"
}  # fmt: skip
"""Those of a filter, and those beside them in a query or a form."""
CHANGEABLE = {"waiting": State.MAIN, "delayed": State.DELAYED, "failed": State.FAILED}
"""The states whose items can be changed together, by the last part of the path of their page."""


def filter_of(fields: Mapping[str, str]) -> ItemFilter:
    """The filter in these fields, named as those of :class:`ItemFilter`. Answers with status 400 to a wrong one.

    Without ``payload``: a JSONPath of one user could keep the page from answering the others. A field that is not known
    may be a filter of a later release: without it, more items would pass.
    """

    def text(name: str) -> str:
        found = fields.get(name, "")
        if len(found) > LONGEST_FILTER:
            raise ValueError(f"{name} has {len(found)} characters; give at most {LONGEST_FILTER}")
        return found

    def number(name: str) -> int | None:
        found = text(name)
        if found and not (found.isascii() and found.isdigit()):
            raise ValueError(f"{name} is {found[:100]!r}; give a whole number")
        if found and int(found) > _MOST_GIVEN_UP:
            raise ValueError(f"{name} is {found[:100]}; give at most {_MOST_GIVEN_UP:,}")
        return int(found) if found else None

    try:
        if unknown := sorted(fields.keys() - _FIELDS):
            raise ValueError(f"this page does not know {unknown[0][:100]!r}")
        return ItemFilter(
            error=text("error"),
            reason=text("reason"),
            client=text("client") or None,
            header=parse_header_filter(text("header")) if text("header") else None,
            min_age=parse_duration(text("min_age")) if text("min_age") else 0.0,
            min_given_up_count=number("min_given_up_count") or 0,
            max_given_up_count=number("max_given_up_count"),
        )
    except ValueError as error:
        raise HTTPException(400, f"the filter cannot be used: {error}") from error
