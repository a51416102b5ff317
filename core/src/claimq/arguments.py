"""Checks arguments of public functions. Errors name the argument.

A duration is a number of seconds or a :class:`datetime.timedelta`; an instant is Unix seconds or an aware
:class:`datetime.datetime`. Inside the package both are seconds.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from math import isfinite
from typing import Any, Generic, TypeVar, overload

Duration = float | timedelta
Instant = float | datetime
T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")
G = TypeVar("G")

YEAR = 366 * 86_400.0
CENTURY = 876_000 * 3600.0
"""Also the longest duration of a manifest."""
_LATEST = 1e11
_MOST_MEANT = 3


def seconds(name: str, argument: object, *, least: float = 0.0, most: float = CENTURY) -> float:
    """The seconds of a duration. Raises TypeError or ValueError that names the argument."""
    if isinstance(argument, timedelta):
        argument = argument.total_seconds()
    number = _number(name, argument, "a number of seconds or a datetime.timedelta")
    return _within(name, number, least, most, unit=" seconds")


def optional_seconds(
    name: str, argument: object, *, least: float = 0.0, most: float = CENTURY
) -> float | None:
    """The same, and None stays None."""
    return None if argument is None else seconds(name, argument, least=least, most=most)


def instant(name: str, argument: object) -> float:
    """The Unix seconds of an instant. Raises TypeError or ValueError that names the argument."""
    if isinstance(argument, datetime):
        if argument.tzinfo is None:
            raise ValueError(
                f"{name} is {argument!r}, which has no time zone; give datetime.now(UTC) + timedelta(hours=1)"
            )
        argument = argument.timestamp()
    number = _number(name, argument, "an instant: Unix seconds or a datetime with a time zone")
    return _within(name, number, 0.0, _LATEST, unit=", Unix seconds")


def count(name: str, argument: object, *, least: int = 0, most: int = 1_000_000_000) -> int:
    """A whole number. Raises TypeError or ValueError that names the argument."""
    if isinstance(argument, bool) or not isinstance(argument, int):
        raise TypeError(f"{name} is {argument!r}; give a whole number")
    return int(_within(name, argument, least, most))


def optional_count(name: str, argument: object, *, least: int = 0, most: int = 1_000_000_000) -> int | None:
    """The same, and None stays None."""
    return None if argument is None else count(name, argument, least=least, most=most)


def number(name: str, argument: object, *, least: float, most: float) -> float:
    """A number. Raises TypeError or ValueError that names the argument."""
    return _within(name, _number(name, argument, "a number"), least, most)


def of_type(name: str, argument: object, kind: type[T] | tuple[type[T], ...], expected: str) -> T:
    """A value of that type. Raises TypeError that names the argument and what is ``wanted``."""
    if not isinstance(argument, kind):
        raise TypeError(f"{name} is {argument!r}; give {expected}")
    return argument


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """``; did you mean A or B?``, or an empty text. ``NAME`` also matches ``NAMESPACE.NAME`` and ``NAME_PART``."""
    other_names = [candidate for candidate in known_names if candidate != name]
    meant = [
        candidate
        for candidate in other_names
        if candidate.endswith(f".{name}") or candidate.startswith(f"{name}_")
    ]
    meant += difflib.get_close_matches(name, other_names, _MOST_MEANT)
    return f"; did you mean {' or '.join([*dict.fromkeys(meant)][:_MOST_MEANT])}?" if meant else ""


def is_page(count_: object, offset: object) -> bool:
    """Whether a page of ``count`` items can have any. Raises TypeError or ValueError for invalid numbers."""
    count("offset", offset)
    return count("count", count_, least=-1_000_000_000) > 0


def text(name: str, argument: object) -> str:
    """A text. Raises TypeError that names the argument."""
    return of_type(name, argument, str, "text")


def choice(name: str, argument: object, kind: type[E]) -> E:
    """A member of an enumeration, or its text. Raises ValueError that names the argument and the members."""
    for member in kind:
        if argument == member:
            return member
    raise ValueError(f"{name} is {argument!r}; give one of: {', '.join(kind)}")


def several(name: str, values: object) -> list[Any]:
    """The values of an iterable. Raises TypeError for a single payload, which could be taken for many."""
    kind = type(values).__name__
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {kind}; give a list, also for one item")
    return list(values)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of any type


def is_finite(number: float) -> bool:
    """Whether it is neither infinite nor NaN; also for whole numbers beyond the range of a float."""
    return isinstance(number, int) or isfinite(number)


def _number(name: str, argument: object, expected: str) -> float:
    if isinstance(argument, bool) or not isinstance(argument, int | float):
        raise TypeError(f"{name} is {argument!r}; give {expected}")
    return argument


def _within(name: str, number: float, least: float, most: float, unit: str = "") -> float:
    if not is_finite(number) or not least <= number <= most:
        raise ValueError(f"{name} is {number}; give {_plain(least)} to {_plain(most)}{unit}")
    return number


def _plain(bound: float) -> str:
    return f"{bound:,.3f}".rstrip("0").rstrip(".") if bound < _LATEST else f"{bound:.0e}"


class Checked(Generic[R, G]):
    """Descriptor of a frozen dataclass's field: checks what is given, and returns what the check makes of it.

    ``WITHIN`` of that class, if it has one, is what the class is called in errors.
    """

    is_optional = False
    """Whether the field may be None."""

    def __init__(self, default: R, check: Callable[[str, object], R]) -> None:
        self.default = default
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name
        self._full_name = getattr(owner, "WITHIN", "") + name

    @overload
    def __get__(self, record: None, owner: type) -> R: ...
    @overload
    def __get__(self, record: object, owner: type) -> R: ...
    def __get__(self, record: object | None, owner: type) -> R:
        return self.default if record is None else record.__dict__[self.name]

    def __set__(self, record: Any, value: G) -> None:
        record.__dict__[self.name] = self._check(self._full_name, value)


class Seconds(Checked[float, Duration]):
    """A duration, read as seconds."""

    def __init__(self, default: float, *, least: float = 0.0, most: float = CENTURY) -> None:
        super().__init__(default, partial(seconds, least=least, most=most))


class OptionalSeconds(Checked[float | None, Duration | None]):
    """The same, and None stays None."""

    is_optional = True

    def __init__(self, default: float | None, *, least: float = 0.0, most: float = CENTURY) -> None:
        super().__init__(default, partial(optional_seconds, least=least, most=most))


class Count(Checked[int, int]):
    """A whole number."""

    def __init__(self, default: int, *, least: int = 0, most: int = 1_000_000_000) -> None:
        super().__init__(default, partial(count, least=least, most=most))


class Size(Count):
    """A number of bytes."""


class OptionalCount(Checked[int | None, int | None]):
    """A whole number or None, which is the default."""

    is_optional = True

    def __init__(self, *, least: int = 0, most: int = 1_000_000_000) -> None:
        super().__init__(None, partial(optional_count, least=least, most=most))


class OptionalSize(OptionalCount):
    """A number of bytes or None."""


class Number(Checked[float, float]):
    """A number."""

    def __init__(self, default: float, *, least: float, most: float) -> None:
        super().__init__(default, partial(number, least=least, most=most))


class Flag(Checked[bool, bool]):
    """True or False, which is the default."""

    def __init__(self) -> None:
        super().__init__(False, partial(of_type, kind=bool, expected="True or False"))


class Choice(Checked[E, E | str]):
    """A member of an enumeration, or its text."""

    def __init__(self, default: E) -> None:
        self.members = tuple(map(str, type(default)))
        super().__init__(default, partial(choice, kind=type(default)))
