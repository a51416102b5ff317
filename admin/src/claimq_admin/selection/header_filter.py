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
        found = item.headers.get(self.name)
        return found is not None and self.value in (None, found)


def parse_header_filter(text: str) -> HeaderFilter:
    """Reads ``NAME`` or ``NAME=VALUE``. Raises ValueError with the fix."""
    name, has_value, value = text.partition("=")
    checked_headers({name: value})
    return HeaderFilter(name, value if has_value else None)
