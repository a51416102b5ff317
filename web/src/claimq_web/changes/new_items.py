"""Items to enqueue in the body of a request of a program."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from claimq.arguments import did_you_mean, optional_seconds
from claimq.codec import check_new_item
from claimq.item_options import ITEM_OPTIONS, OF_ENQUEUE, Form
from claimq.model import NewItem
from claimq_admin.item_files.item_files import item_of_fields, json_fields
from claimq_admin.item_files.json_text import elements_of, fields_of

_MOST_ITEMS = 1000
_FROM_NOW = {option.name: option.socket_name for option in ITEM_OPTIONS if option.form is Form.INSTANT}
"""Options that are an instant -> the field that has seconds from now in their place."""
_KNOWN = {"payload", "payload_base64", *OF_ENQUEUE, *_FROM_NOW.values()}


class InvalidItem(ValueError):
    """An item is not valid. ``index``: its position in the request."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(f"items[{index}]: {why}")
        self.index = index


def items_of(body: bytes) -> list[NewItem]:
    """The items of ``{"items": [...]}``. ValueError with what is wrong, InvalidItem with which of them; then nothing
    is enqueued."""
    try:
        fields = fields_of(body.decode(), raw_field="items") or {}
    except UnicodeDecodeError:
        fields = {}
    if "items" not in fields or not isinstance(fields["items"].value, list) or len(fields) > 1:
        raise ValueError('send {"items": [...]} as JSON, without other fields')
    elements = elements_of(fields["items"].text)
    if not 1 <= len(elements) <= _MOST_ITEMS:
        raise ValueError(f"a request has 1 to {_MOST_ITEMS:,} items, not {len(elements):,}; send several")
    return [_item(number, element) for number, element in enumerate(elements)]


def _item(number: int, text: str) -> NewItem:
    """An item, with the fields of a line of `claimq import`, ``delay`` and seconds from now. Others may be limits of a
    later release, so they are refused."""
    try:
        item = json_fields(text)
        if item is None:
            raise ValueError("not an object")
        if unknown := sorted(item.keys() - _KNOWN):
            field = unknown[0][:100]
            raise ValueError(f"there is no field {field!r}{did_you_mean(field, sorted(_KNOWN))}")
        new = replace(item_of_fields(item), delay=optional_seconds("delay", item.get("delay")))
        instants: dict[str, Any] = {}
        for name, from_now in _FROM_NOW.items():
            seconds = optional_seconds(from_now, item.get(from_now))
            if seconds is not None:
                if getattr(new, name) is not None:
                    raise ValueError(f"{name} and {from_now} exclude each other; give only one of them")
                instants[name] = timedelta(seconds=seconds)
        new = replace(new, **instants)
        check_new_item(new)
        return new
    except (ValueError, TypeError) as error:
        raise InvalidItem(number, str(error)[:500]) from error
