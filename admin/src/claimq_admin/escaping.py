"""Escapes foreign text: ids, clients, errors, payloads, workers' logs, names. Pure.

No item can move the cursor, set the title, fill the clipboard or change the text direction.
"""

from __future__ import annotations

import json
from typing import Any


def safe(text: str) -> str:
    """The text on one line, with every unprintable character escaped: control characters, also those above 127 and
    those that change the text direction, line ends, lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def safe_json(document: Any) -> str:
    """The document as JSON, with unprintable characters as JSON escapes, so that it stays the same document."""
    text = json.dumps(document, ensure_ascii=False, indent=2)
    return "".join(
        letter if letter == "\n" or letter.isprintable() else json.dumps(letter)[1:-1] for letter in text
    )
