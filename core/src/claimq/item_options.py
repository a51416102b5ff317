"""The options of an item: what its producer gives beside the payload. They are checked, written and read here.

``lua/lib/envelope.lua`` has the same rules for the stored form, a JSON object (docs/decisions/item-options.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final, cast

from claimq.arguments import choice, count, instant, seconds
from claimq.model import NewItem, Priority

MAX_REQUEUES: Final = 1_000_000
MAX_HEADERS: Final = 16
MAX_HEADER_NAME: Final = 64
MAX_HEADER_VALUE: Final = 1024
MAX_EXCLUSIVE_KEY: Final = 128
EXCLUSIVE_KEY: Final = "[!-~]+"
"""Pattern of a whole key."""
HEADER_NAME: Final = "[a-z][a-z0-9-]*"
"""Pattern of a whole name."""
HEADER_VALUE: Final = "(?:[!-~](?:[ -~]*[!-~])?)?"
"""Pattern of a whole value. A space at an end would be lost in HTTP."""
RESERVED: Final = "claimq-"
"""Names with this prefix are reserved for claimq."""
_LATEST_DEADLINE: Final = 9_999_999_999.0
_NAME, _VALUE, _STORED_VALUE, _KEY = map(re.compile, (HEADER_NAME, HEADER_VALUE, "[ -~]*", EXCLUSIVE_KEY))


def checked_headers(headers: object) -> dict[str, str]:
    """Valid headers as a dict. Raises TypeError or ValueError with the fix."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {type(headers).__name__}; give a mapping of names to texts")
    given = cast("Mapping[object, object]", headers)
    if len(given) > MAX_HEADERS:
        raise ValueError(f"an item has at most {MAX_HEADERS} headers, not {len(given)}; use the payload")
    return {_checked_name(name): _checked_value(name, value) for name, value in given.items()}


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a header's name is {type(name).__name__}; give text")
    if not _NAME.fullmatch(name) or len(name) > MAX_HEADER_NAME:
        raise ValueError(
            f"a header's name is {name[: MAX_HEADER_NAME + 1]!r}; give a lower-case letter, then lower-case letters, "
            f"digits and '-', at most {MAX_HEADER_NAME} characters"
        )
    if name.startswith(RESERVED):
        raise ValueError(f"the header {name} has a name of claimq's own ({RESERVED}...); give another one")
    return name


def _checked_value(name: object, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"the header {name} is {type(value).__name__}; give text")
    if not _VALUE.fullmatch(value) or len(value) > MAX_HEADER_VALUE:
        raise ValueError(
            f"the value of the header {name} may only have printable ASCII characters, at most {MAX_HEADER_VALUE}, and "
            "no space at its ends; percent-encode others, or use the payload"
        )
    return value


def checked_exclusive_key(key: object) -> str:
    """A valid exclusive key. Raises TypeError or ValueError with the fix."""
    if not isinstance(key, str):
        raise TypeError(f"exclusive_key is {type(key).__name__}; give text")
    if not _is_key(key):
        raise ValueError(
            f"exclusive_key is {key[: MAX_EXCLUSIVE_KEY + 1]!r}; give 1 to {MAX_EXCLUSIVE_KEY} printable ASCII "
            "characters without blanks, for example a hash of the name"
        )
    return key


def _is_key(key: object) -> bool:
    return isinstance(key, str) and len(key) <= MAX_EXCLUSIVE_KEY and _KEY.fullmatch(key) is not None


def options_word(new: NewItem) -> str:
    """The options of a new item for the scripts; "" if it has none. Raises TypeError or ValueError."""
    given = (new.headers, new.deadline, new.max_requeues, new.exclusive_key)
    if given == (None, None, None, None) and new.priority == "normal":
        return ""
    options: dict[str, object] = {}
    if new.headers is not None and (headers := checked_headers(new.headers)):
        # A list, so that no name stands where the scripts look for a field of their own.
        options["headers"] = [word for pair in headers.items() for word in pair]
    if isinstance(new.deadline, timedelta):
        options["deadline"] = f"+{round(seconds('deadline', new.deadline) * 1000)}"
    elif new.deadline is not None:
        options["deadline"] = _deadline_ms(instant("deadline", new.deadline))
    if new.max_requeues is not None:
        options["max_requeues"] = count("max_requeues", new.max_requeues, most=MAX_REQUEUES)
    if (priority := choice("priority", new.priority, Priority)) is not Priority.NORMAL:
        options["priority"] = priority.value
    if new.exclusive_key is not None:
        options["exclusive"] = checked_exclusive_key(new.exclusive_key)
    return json.dumps(options, separators=(",", ":")) if options else ""


def _deadline_ms(at: float) -> int:
    if at > _LATEST_DEADLINE:
        raise ValueError(f"deadline is {at}; give an instant before the year 2286, or none")
    return round(at * 1000)


def read_headers(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The headers in the options of an envelope."""
    words: list[str] = options.get("headers", [])
    return tuple(zip(words[::2], words[1::2], strict=True))


def read_limits(options: Mapping[str, Any]) -> tuple[float | None, int | None]:
    """The deadline in Unix seconds and ``max_requeues``; None for what is not set."""
    deadline: int | None = options.get("deadline")
    return None if deadline is None else deadline / 1000, options.get("max_requeues")


def read_priority(options: Mapping[str, Any]) -> Priority:
    """The priority in the options of an envelope."""
    return Priority(options.get("priority", Priority.NORMAL))


def are_options(options: object) -> bool:
    """Whether a script can have written these options. Options of later releases are not checked."""
    if not isinstance(options, dict) or not options:
        return False
    found = cast("dict[str, object]", options)
    limit = found.get("max_requeues", 0)
    if type(found.get("deadline", 0)) is not int or type(limit) is not int or limit > MAX_REQUEUES:
        return False
    if found.get("priority", "high") not in ("high", "low") or not _is_key(found.get("exclusive", "key")):
        return False
    return "headers" not in found or _are_headers(found["headers"])


def _are_headers(words: object) -> bool:
    if not isinstance(words, list):
        return False
    found = cast("list[object]", words)
    if not 0 < len(found) <= 2 * MAX_HEADERS or len(found) % 2:
        return False
    texts = [word for word in found if isinstance(word, str)]
    return (
        len(texts) == len(found)
        and all(len(name) <= MAX_HEADER_NAME and _NAME.fullmatch(name) for name in texts[::2])
        and all(len(value) <= MAX_HEADER_VALUE and _STORED_VALUE.fullmatch(value) for value in texts[1::2])
    )
