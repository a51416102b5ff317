"""The filter of items in the fields of a query or a form, and the change of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from starlette.exceptions import HTTPException

from claimq_admin.changes.item_actions import ItemChange
from claimq_admin.selection.item_filter import PAGE_FILTERS, ItemFilter
from claimq_process.duration import parse_duration

LONGEST_TEXT = 1000
LONGEST_FILTER = 2000
OTHERS = {"action", "because", "form_token", "rate", "state", "target"}
"""The fields beside those of a filter in a query or a form."""


def check_known(fields: Mapping[str, str], names: Collection[str]) -> None:
    """Answers with status 400 to a field that is not known: in a later release it may limit what is changed."""
    if unknown := sorted(fields.keys() - {*names}):
        raise HTTPException(400, f"this page does not know {unknown[0][:100]!r}; omit it")


def filter_of(fields: Mapping[str, str]) -> ItemFilter:
    """The filter in these fields; empty ones do not count. Answers with status 400 to a wrong one.

    A field that is not known may be a filter of a later release: without it, more items would pass.
    """
    check_known(fields, {*PAGE_FILTERS, *OTHERS})
    values: dict[str, Any] = {}
    for name, item_filter in PAGE_FILTERS.items():
        if not (text := fields.get(name)):
            continue
        if len(text) > LONGEST_FILTER:
            raise _unusable(f"{name} has {len(text)} characters; give at most {LONGEST_FILTER}")
        try:
            values[name] = item_filter.read(text)
        except ValueError as error:
            raise _unusable(f"{name}: {error}") from error
    return ItemFilter(**values)


def _unusable(why: str) -> HTTPException:
    return HTTPException(400, f"the filter cannot be used: {why}")


def change_of(form: Mapping[str, str]) -> ItemChange:
    """The change in the fields of a form. Answers with status 400 to a wrong one."""
    because, delay = form.get("because", "")[:LONGEST_TEXT], form.get("delay", "").strip()
    try:
        parts: dict[str, Any] = {"because": because} if because else {}
        return ItemChange(form.get("action", ""), **parts, delay=parse_duration(delay) if delay else None)
    except ValueError as error:
        raise HTTPException(400, str(error)) from error
