"""Reads a component's settings from environment variables and reports all problems at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from claimq_process.duration import format_duration, parse_duration
from claimq_process.size import parse_size

_NO_LIMIT = ", or omit it for no limit"

Absent = TypeVar("Absent")
"""The value of a variable that is not set; None for some: no limit."""


class InvalidSettings(Exception):
    """The environment has errors; ``problems`` holds all of them, one line each, naming the variable and the fix."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Environment:
    """Reads values and collects their problems; an invalid value reads as the default.

    An empty variable counts as absent, as it does in a manifest's ``value: ""``.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.problems: list[str] = []

    def end(self) -> None:
        """Raises :class:`InvalidSettings` if there were problems."""
        if self.problems:
            raise InvalidSettings(self.problems)

    def bad(self, name: str, fix: str) -> None:
        """Adds a problem: what is wrong with the variable, and what to write instead."""
        self.problems.append(f"{name}: {fix}")

    def text(self, name: str) -> str | None:
        """The value as it is, without blanks around it; None if it is not set."""
        return self._variables.get(name, "").strip() or None

    def choice(self, name: str, allowed: Sequence[str], default: Absent) -> str | Absent:
        """One of ``allowed``, in any case."""
        text = self.text(name)
        if text is None:
            return default
        for choice in allowed:
            if choice.lower() == text.lower():
                return choice
        self.bad(name, f'is "{text}"; give one of {", ".join(allowed)}')
        return default

    def boolean(self, name: str, *, default: bool) -> bool:
        """``true`` or ``false``."""
        text = self.text(name)
        if text is not None and text.lower() not in ("true", "false"):
            self.bad(name, f'is "{text}"; give true or false')
            return default
        return default if text is None else text.lower() == "true"

    def port(self, name: str, default: int) -> int:
        """A port, or 0."""
        number = self._digits(name)
        if number is not None and number <= 65535:
            return number
        if (text := self.text(name)) is not None:
            self.bad(name, f'is "{text}"; give a port from 1 to 65535, or 0 for any that is free')
        return default

    def whole(self, name: str, default: Absent, *, least: int, most: int) -> int | Absent:
        """A whole number."""
        number = self._digits(name)
        if number is not None and least <= number <= most:
            return number
        if (text := self.text(name)) is not None:
            end = _NO_LIMIT if default is None else ""
            self.bad(name, f'is "{text}"; give a whole number from {least} to {most}{end}')
        return default

    def duration(self, name: str, default: Absent, *, at_least: float = 0.0) -> float | Absent:
        """Seconds, from a duration like ``30s``."""
        text = self.text(name)
        if text is None:
            return default
        try:
            seconds = parse_duration(text)
        except ValueError as error:
            self.bad(name, str(error))
            return default
        if seconds < at_least:
            end = _NO_LIMIT if default is None else ""
            self.bad(name, f'is "{text}"; give at least {format_duration(at_least)}{end}')
            return default
        return seconds

    def size(self, name: str, default: int, *, least: str) -> int:
        """Bytes, from a size like ``16Mi``."""
        text = self.text(name)
        if text is None:
            return default
        try:
            size = parse_size(text)
        except ValueError as error:
            self.bad(name, str(error))
            return default
        if size < parse_size(least):
            self.bad(name, f'is "{text}"; give at least {least}')
            return default
        return size

    def _digits(self, name: str) -> int | None:
        text = self.text(name) or ""
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None
