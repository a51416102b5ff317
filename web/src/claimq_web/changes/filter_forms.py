"""The filter of items in the fields of a query or a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException

from claimq.model import State
from claimq_admin.selection.item_filter import PAGE_FILTERS, ItemFilter

LONGEST_TEXT = 1000
LONGEST_FILTER = 2000
_OTHERS = {"action", "because", "form_token", "id", "rate", "state", "target"}
"""The fields beside those of a filter in a query or a form."""
CHANGEABLE = {"waiting": State.MAIN, "delayed": State.DELAYED, "failed": State.FAILED}
"""The states whose items can be changed together, by the last part of the path of their page."""


def filter_of(fields: Mapping[str, str]) -> ItemFilter:
    """The filter in these fields; empty ones do not count. Answers with status 400 to a wrong one.

    A field that is not known may be a filter of a later release: without it, more items would pass.
    """
    if unknown := sorted(fields.keys() - PAGE_FILTERS.keys() - _OTHERS):
        raise _unusable(f"this page does not know {unknown[0][:100]!r}")
    found: dict[str, Any] = {}
    for name, one in PAGE_FILTERS.items():
        if not (text := fields.get(name)):
            continue
        if len(text) > LONGEST_FILTER:
            raise _unusable(f"{name} has {len(text)} characters; give at most {LONGEST_FILTER}")
        try:
            found[name] = one.read(text)
        except ValueError as error:
            raise _unusable(f"{name}: {error}") from error
    return ItemFilter(**found)


def _unusable(why: str) -> HTTPException:
    return HTTPException(400, f"the filter cannot be used: {why}")
