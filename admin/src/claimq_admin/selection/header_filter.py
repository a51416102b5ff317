"""Selects items by a header: one that has it, or that has it with a certain value."""

from __future__ import annotations

from dataclasses import dataclass

from claimq.item_options import checked_headers
from claimq.model import Item


@dataclass(frozen=True, slots=True)
class HeaderFilter:
    """``value``: None for any."""

    name: str
    value: str | None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"

    def passes(self, item: Item) -> bool:
        """Whether the item has the header."""
        text_of_header = item.headers.get(self.name)
        return text_of_header is not None and self.value in (None, text_of_header)


def parse_header_filter(text: str) -> HeaderFilter:
    """Reads ``NAME`` or ``NAME=VALUE``. Raises ValueError with the fix."""
    name, has_value, expected = text.partition("=")
    checked_headers({name: expected})
    return HeaderFilter(name, expected if has_value else None)
