"""The options of an item: what its producer gives beside the payload, and the item keeps.

:data:`ITEM_OPTIONS` declares each of them once; readers and writers of items follow it. ``lua/lib/envelope.lua`` has
the same rules for the stored form, a JSON object (docs/decisions/item-options.md).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypedDict, cast

from claimq.arguments import Duration, Instant, choice, count, did_you_mean, instant, of_type, seconds
from claimq.model import Item, NewItem, Priority

MAX_REQUEUES: Final = 1_000_000
MAX_COST: Final = 1_000_000
MAX_HEADERS: Final = 16
MAX_HEADER_NAME: Final = 64
MAX_HEADER_VALUE: Final = 1024
MAX_KEY: Final = 128
KEY: Final = "[!-~]+"
"""Pattern of a whole key."""
HEADER_NAME: Final = "[a-z][a-z0-9-]*"
"""Pattern of a whole name."""
HEADER_VALUE: Final = "(?:[!-~](?:[ -~]*[!-~])?)?"
"""Pattern of a whole value. A space at an end would be lost in HTTP."""
RESERVED: Final = "claimq-"
"""Names with this prefix are reserved for claimq."""
_LATEST_DEADLINE: Final = 9_999_999_999.0
_NAME, _VALUE, _STORED_VALUE, _KEY = map(re.compile, (HEADER_NAME, HEADER_VALUE, "[ -~]*", KEY))


class KeptOptions(TypedDict, total=False):
    """Those options of :class:`NewItem` that an item keeps."""

    headers: Mapping[str, str] | None
    deadline: Instant | timedelta | None
    max_requeues: int | None
    priority: Priority | str
    key: str | None
    cost: int


class ItemOptions(KeptOptions, total=False):
    """The options of :class:`NewItem`, as arguments of an enqueue."""

    id: str | None
    client: str | None
    delay: Duration | None
    at: Instant | None


class Form(Enum):
    """What the value of an option is."""

    HEADERS = "names and texts"
    INSTANT = "an instant"
    """In Unix seconds. A producer may also give a timedelta from now."""
    COUNT = "a whole number from least to most"
    CHOICE = "one of choices"
    TEXT = "text"


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOption:
    """An option of an item, under one name everywhere: a field of :class:`NewItem` and :class:`Item`, of JSON and
    of envelopes, a column of CSV. Flags and variables of the environment have it with their own separators."""

    name: str
    title: str
    """For people."""
    description: str
    form: Form
    advice: str
    """What to give, for a request that is refused."""
    check: Callable[[Any], Any]
    """From the value of a NewItem to a valid one; None for one that need not be stored. Raises TypeError or
    ValueError."""
    is_stored: Callable[[object], bool]
    """Whether a script can have stored this value."""
    store: Callable[[Any], object] = _as_it_is
    """From a valid value to the stored one."""
    load: Callable[[Any], Any] = _as_it_is
    """From the stored value to that of a document."""
    read: Callable[[Any], Any] = _as_it_is
    """From the value of a document to that of an Item."""
    unset: object = None
    """The value of an Item without this option."""
    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()

    @property
    def field(self) -> str:
        """Its field of an Item, which can be hashed."""
        return "header_pairs" if self.form is Form.HEADERS else self.name

    @property
    def socket_name(self) -> str:
        """Its field on the sidecar's socket, which takes no instants but seconds from now."""
        return "expires_in" if self.form is Form.INSTANT else self.name

    def of(self, item: Any) -> Any:
        """The value of an item, as in a document."""
        return getattr(item, self.name)


def checked_headers(headers: object) -> dict[str, str]:
    """Valid headers as a dict. Raises TypeError or ValueError with the fix."""
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers is {type(headers).__name__}; give a mapping of names to texts")
    pairs = cast("Mapping[object, object]", headers)
    if len(pairs) > MAX_HEADERS:
        raise ValueError(f"an item has at most {MAX_HEADERS} headers, not {len(pairs)}; use the payload")
    return {_checked_name(name): _checked_value(name, value) for name, value in pairs.items()}


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


def _checked_value(name: object, text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"the header {name} is {type(text).__name__}; give text")
    if not _VALUE.fullmatch(text) or len(text) > MAX_HEADER_VALUE:
        raise ValueError(
            f"the value of the header {name} may only have printable ASCII characters, at most {MAX_HEADER_VALUE}, and "
            "no space at its ends; percent-encode others, or use the payload"
        )
    return text


def checked_key(key: object) -> str:
    """A valid key. Raises TypeError or ValueError with the fix."""
    if not isinstance(key, str):
        raise TypeError(f"key is {type(key).__name__}; give text")
    if not _is_key(key):
        raise ValueError(
            f"key is {key[: MAX_KEY + 1]!r}; give 1 to {MAX_KEY} printable ASCII "
            "characters without blanks, for example a hash of the name"
        )
    return key


def _checked_cost(cost: object) -> int | None:
    valid = count("cost", cost, least=1, most=MAX_COST)
    return None if valid == 1 else valid


def _is_key(key: object) -> bool:
    return isinstance(key, str) and len(key) <= MAX_KEY and _KEY.fullmatch(key) is not None


def _are_headers(words: object) -> bool:
    if not isinstance(words, list):
        return False
    entries = cast("list[object]", words)
    if not 0 < len(entries) <= 2 * MAX_HEADERS or len(entries) % 2:
        return False
    texts = [word for word in entries if isinstance(word, str)]
    return (
        len(texts) == len(entries)
        and all(len(name) <= MAX_HEADER_NAME and _NAME.fullmatch(name) for name in texts[::2])
        and all(len(value) <= MAX_HEADER_VALUE and _STORED_VALUE.fullmatch(value) for value in texts[1::2])
    )


def _pairs(headers: Mapping[str, str] | None) -> tuple[tuple[str, str], ...]:
    return tuple((headers or {}).items())


def checked_end(name: str, end: object) -> timedelta | float:
    """A valid end: a timedelta from now, or an instant in Unix seconds. Raises TypeError or ValueError with the fix."""
    if isinstance(end, timedelta):
        seconds(name, end)
        return end
    expected = "a timedelta from now, or an instant: Unix seconds or a datetime with a time zone"
    at = instant(name, of_type(name, end, (datetime, int, float), expected))
    if at > _LATEST_DEADLINE:
        raise ValueError(f"{name} is {at}; give an instant before the year 2286, or none")
    return at


def stored_end(end: timedelta | float) -> str | int:
    """An end as the scripts take it: in ms, and with a plus those from now."""
    if isinstance(end, timedelta):
        return f"+{round(end.total_seconds() * 1000)}"
    return round(end * 1000)


def _checked_priority(priority: object) -> Priority | None:
    chosen = choice("priority", priority, Priority)
    return None if chosen is Priority.NORMAL else chosen


ITEM_OPTIONS: Final = (
    ItemOption(
        name="headers",
        title="headers",
        description="Go with the item to its worker. Names have lower-case letters, digits and '-'; values printable "
        "ASCII characters.",
        form=Form.HEADERS,
        advice="give an object of names and strings",
        check=lambda headers: checked_headers(headers) or None,
        # A list, so that no name stands where the scripts look for a field of their own.
        store=lambda headers: [word for pair in headers.items() for word in pair],
        is_stored=_are_headers,
        load=lambda words: dict(zip(words[::2], words[1::2], strict=True)),
        read=_pairs,
        unset=(),
    ),
    ItemOption(
        name="deadline",
        title="deadline",
        description="After it the item is not started; it goes to failed.",
        form=Form.INSTANT,
        advice="give Unix seconds",
        check=partial(checked_end, "deadline"),
        store=stored_end,
        is_stored=lambda deadline: type(deadline) is int,
        load=lambda deadline: deadline / 1000,
    ),
    ItemOption(
        name="max_requeues",
        title="requeue limit",
        description="Instead of the queue's limit.",
        form=Form.COUNT,
        advice=f"give a whole number from 0 to {MAX_REQUEUES}",
        most=MAX_REQUEUES,
        check=lambda limit: count("max_requeues", limit, most=MAX_REQUEUES),
        is_stored=lambda limit: type(limit) is int and limit <= MAX_REQUEUES,
    ),
    ItemOption(
        name="priority",
        title="priority",
        description="Which items of the client are claimed first.",
        form=Form.CHOICE,
        advice=f"give one of {', '.join(Priority)}",
        choices=tuple(map(str, Priority)),
        check=_checked_priority,
        is_stored=lambda priority: priority in ("high", "low"),
        read=lambda priority: Priority(priority or Priority.NORMAL),
        unset=Priority.NORMAL,
    ),
    ItemOption(
        name="key",
        title="key",
        description="Of the items with the same key at most one is busy.",
        form=Form.TEXT,
        advice=f"give 1 to {MAX_KEY} printable ASCII characters without blanks",
        check=checked_key,
        is_stored=_is_key,
    ),
    ItemOption(
        name="cost",
        title="cost",
        description="What the item counts for a limit with unit cost.",
        form=Form.COUNT,
        advice=f"give a whole number from 1 to {MAX_COST}",
        least=1,
        most=MAX_COST,
        check=_checked_cost,
        is_stored=lambda cost: type(cost) is int and 1 <= cost <= MAX_COST,
        unset=1,
    ),
)
OF_ENQUEUE: Final = tuple(field.name for field in fields(NewItem))[1:]
"""The names of all options of an enqueue: of these, the id and client, and when the item is due."""
OF_OTHERS: Final = {
    "countdown": "delay",
    "eta": "at",
    "expires": "deadline",
    "ttl": "deadline",
    "task_id": "id",
    "job_id": "id",
    "max_retries": "retries",
    "retry": "retries",
    "default_retry_delay": "retry_delay",
    "interval": "retry_delay",
}
"""Names that Celery and RQ have for options of an item or a task."""
_values = attrgetter(*(option.name for option in ITEM_OPTIONS))
_values_of_item = attrgetter(*(option.field for option in ITEM_OPTIONS))
_UNSET: Final = tuple(option.unset for option in ITEM_OPTIONS)
_NONE: Final = tuple(None if option.unset == () else option.unset for option in ITEM_OPTIONS)


def new_item(payload: object, options: ItemOptions) -> NewItem:
    """The item of an enqueue. Raises TypeError for an unknown option, with the name that it may mean."""
    check_options("an item", options, OF_ENQUEUE)
    return NewItem(payload, **options)


def check_options(whose: str, options: Iterable[str], names: Sequence[str]) -> None:
    """Raises TypeError for an option that is not one of these names, with the one that it may mean."""
    for name in options:
        if name not in names:
            meant = OF_OTHERS.get(name)
            hint = f"; did you mean {meant}?" if meant in names else did_you_mean(name, names)
            raise TypeError(f"{whose} has no option {name}{hint or '; the options are ' + ', '.join(names)}")


def expect_no_instant(new: NewItem) -> None:
    """Raises TypeError for an item that starts or ends at an instant instead of a time from now."""
    if new.at is not None:
        raise TypeError("at is an instant, which is not possible here; give delay=")
    if new.deadline is not None:
        of_type("deadline", new.deadline, timedelta, "a datetime.timedelta from now")


def valid_options(new: NewItem) -> Iterator[tuple[ItemOption, Any]]:
    """The options that a new item has, with valid values. Raises TypeError or ValueError."""
    for option, value, default in zip(ITEM_OPTIONS, _values(new), _NONE, strict=True):
        if value != default and (valid := option.check(value)) is not None:
            yield option, valid


def options_word(new: NewItem) -> str:
    """The options of a new item for the scripts; "" if it has none. Raises TypeError or ValueError."""
    if _values(new) == _NONE:
        return ""
    stored = {option.name: option.store(value) for option, value in valid_options(new)}
    return json.dumps(stored, separators=(",", ":")) if stored else ""


def read_options(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The options in an envelope, as in a document; without those that it does not have."""
    return {option.name: option.load(stored[option.name]) for option in ITEM_OPTIONS if option.name in stored}


def item_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an Item from the options in a document; without those that it does not have."""
    return {
        option.field: option.read(document[option.name]) for option in ITEM_OPTIONS if option.name in document
    }


def set_options(item: Item) -> Iterator[tuple[ItemOption, Any]]:
    """The options that an item has, with their values."""
    for option, value, unset in zip(ITEM_OPTIONS, _values_of_item(item), _UNSET, strict=True):
        if value != unset:
            yield option, option.of(item)


def kept_options(item: Item) -> KeptOptions:
    """The options of an item, to enqueue another one with them."""
    return cast("KeptOptions", {option.name: value for option, value in set_options(item)})


def are_options(options: object) -> bool:
    """Whether a script can have written these options. Options of later releases are not checked."""
    if not isinstance(options, dict) or not options:
        return False
    stored = cast("dict[str, object]", options)
    return all(option.is_stored(stored[option.name]) for option in ITEM_OPTIONS if option.name in stored)
