"""Reads plain values into declared dataclasses, and collects every problem with its field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from math import inf
from typing import Any, TypeVar, cast

from claimq.arguments import is_finite
from claimq.errors import Problem
from claimq_control.manifest.command_words import arguments_for, command_for, needs_shell
from claimq_control.manifest.declaring import UNLIMITED, Declared, DeclaredField, Kind, declared_fields, walk
from claimq_control.quantity import parse_quantity
from claimq_process.duration import LONGEST, format_duration, parse_duration
from claimq_process.size import parse_size

_Spec = TypeVar("_Spec")
_LONGEST_NUMBER = 10**60
_MOST_LEVELS = 100
"""Of an object of Kubernetes that is passed on. Pods have fewer than twenty."""


class Reading:
    """One pass over one document: the problems found so far, and the fields that this pass does not require."""

    def __init__(
        self,
        *,
        root: type[Any],
        not_required: frozenset[str] = frozenset(),
        leaves_unknown: bool = False,
    ) -> None:
        self.problems: list[Problem] = []
        self._leaves_unknown = leaves_unknown
        self._not_required = not_required
        self._homes: dict[str, list[str]] = {}
        for path, _ in walk(root, "spec"):
            self._homes.setdefault(plain(path.rpartition(".")[2]), []).append(path)

    def add(self, path: str, message: str) -> None:
        """Adds a problem; ``message`` has the fix."""
        self.problems.append(Problem(path, message))

    def has_problem_in(self, path: str) -> bool:
        """Whether the value of ``path`` is unusable: the field, a field in it or an object around it has a problem."""
        return any(_within(problem.field, path) or _within(path, problem.field) for problem in self.problems)

    def read_object(self, spec: type[_Spec], raw: object, path: str) -> _Spec:
        """An object of the document as ``spec``. Invalid values are reported and replaced by their defaults."""
        declared = declared_fields(spec)
        if not isinstance(raw, Mapping):
            self.add(path, f"is {shown(raw)}; give an object with the fields {_names(declared)}")
            return spec()
        fields = cast("Mapping[object, object]", raw)
        if not self._leaves_unknown:
            self._unknown(spec, declared, fields, path)
        values: dict[str, object] = {}
        for field in declared:
            here = f"{path}.{field.name}"
            raw_value = fields.get(field.name)
            if raw_value is not None:
                parsed = self._value(field.declared, raw_value, here)
                if parsed is not None:
                    values[field.attribute] = parsed
            elif field.declared.required and here not in self._not_required:
                self.add(here, f"is missing; {_ask(field.declared)}")
        return spec(**values)

    def _unknown(
        self, spec: type[Any], declared: tuple[DeclaredField, ...], fields: Mapping[object, object], path: str
    ) -> None:
        names = {field.name for field in declared}
        for key in fields:
            if key not in names:
                hints = cast("dict[str, str]", getattr(spec, "HINTS", {}))
                self.add(
                    f"{path}.{key}",
                    f"is not a field; {hints.get(str(key)) or self._suggestion(key, declared, path)}",
                )

    def _suggestion(self, key: object, declared: tuple[DeclaredField, ...], path: str) -> str:
        if not isinstance(key, str):
            return f"the name is {shown(key)}, not a text; put it in quotes or remove it"
        by_plain = {plain(field.name): field.name for field in declared}
        if plain(key) in by_plain:
            return f"did you mean {by_plain[plain(key)]}?"
        homes = self._homes.get(plain(key), [])
        if len(homes) == 1:
            return f"did you mean {homes[0]}?"
        near = get_close_matches(plain(key), by_plain, n=1, cutoff=0.7)
        if near:
            return f"did you mean {by_plain[near[0]]}?"
        far = get_close_matches(plain(key), self._homes, n=1, cutoff=0.85)
        if far and len(self._homes[far[0]]) == 1:
            return f"did you mean {self._homes[far[0]][0]}?"
        return f"remove it; the fields of {path} are {_names(declared)}"

    def _value(self, declared: Declared, raw: object, path: str) -> object:
        """The value in Python; None if it is invalid (and reported)."""
        if declared.nested is not None and declared.kind is Kind.OBJECT:
            return self.read_object(cast("type[object]", declared.nested), raw, path)
        if declared.kind in (Kind.TEXTS, Kind.OBJECTS, Kind.FREE_LIST):
            return self._list(declared, raw, path)
        if declared.kind in (Kind.TEXT_MAP, Kind.QUANTITY_MAP, Kind.FREE):
            return self._map(declared, raw, path)
        try:
            value = _SCALARS[declared.kind](declared, raw)
        except ValueError as error:
            self.add(path, str(error))
            return None
        return value

    def _list(self, declared: Declared, raw: object, path: str) -> object:
        if not isinstance(raw, list | tuple):
            if declared.kind is Kind.TEXTS and isinstance(raw, str):
                self.add(path, _as_list(path, raw))
            else:
                self.add(path, f"is {shown(raw)}, not a list; give a list")
            return None
        entries = cast("list[object]", raw)
        if declared.most is not None and len(entries) > declared.most:
            self.add(path, f"has {len(entries)} entries; give at most {declared.most:g}")
            return None
        parsed: list[object] = []
        for index, entry in enumerate(entries):
            here = f"{path}[{index}]"
            if declared.kind is Kind.OBJECTS:
                parsed.append(self.read_object(cast("type[object]", declared.nested), entry, here))
            elif declared.kind is Kind.FREE_LIST:
                parsed.append(self._map(declared, entry, here) or {})
            elif isinstance(entry, str):
                parsed.append(entry)
            else:
                self.add(here, f"is {shown(entry)}; {_quoted(entry)}")
        return tuple(parsed)

    def _map(self, declared: Declared, raw: object, path: str) -> object:
        if not isinstance(raw, Mapping):
            self.add(path, f"is {shown(raw)}; give an object")
            return None
        parsed: dict[str, object] = {}
        for key, value in cast("Mapping[object, object]", raw).items():
            here = f"{path}.{key}"
            if not isinstance(key, str):
                self.add(here, f"the name is {shown(key)}, not a text; put it in quotes")
            elif declared.kind is Kind.TEXT_MAP and not isinstance(value, str):
                self.add(here, f"is {shown(value)}; {_quoted(value)}")
            elif declared.kind is Kind.QUANTITY_MAP:
                self._quantity(parsed, key, value, here)
            elif value is not None:
                try:
                    parsed[key] = _without_nulls(value)
                except ValueError as error:
                    self.add(here, str(error))
        return parsed

    def _quantity(self, quantities: dict[str, object], key: str, raw: object, path: str) -> None:
        if not isinstance(raw, str | int | float):
            self.add(path, f'is {shown(raw)}; write a quantity such as "500m", "2" or "256Mi"')
            return
        if isinstance(raw, float):  # the API server accepts whole numbers and texts
            self.add(path, f'is the number {raw:g} without quotes; write it as a text: "{raw:g}"')
            return
        try:
            if parse_quantity(raw) < 0:
                raise ValueError(f"{shown(raw)} is negative; write a quantity of 0 or more")
            quantities[key] = str(raw)
        except ValueError as error:
            self.add(path, str(error))


def _without_nulls(value: object, levels: int = _MOST_LEVELS) -> object:
    """``value`` without its nulls. In Kubernetes a null means "not set", but in a list it is 0 or an empty text.

    Raises ValueError for more than ``levels`` objects and lists in each other.
    """
    if not isinstance(value, Mapping | list | tuple):
        return value
    if levels == 0:
        raise ValueError(
            f"has more than {_MOST_LEVELS} objects and lists in each other; remove the innermost"
        )
    if isinstance(value, Mapping):
        entries = cast("Mapping[object, object]", value).items()
        return {key: _without_nulls(entry, levels - 1) for key, entry in entries if entry is not None}
    return [_without_nulls(entry, levels - 1) for entry in cast("list[object]", value) if entry is not None]


def plain(name: str) -> str:
    """A name in lower case without hyphens and underscores, for comparisons."""
    return re.sub(r"[-_\s\[\]]", "", name).lower()


def _as_list(path: str, text: str) -> str:
    """The end of the message on a text that must be a list."""
    is_command = path.endswith(".command")
    if not text.strip():
        return "must not be empty; give a list of words, or remove it"
    if needs_shell(text) and not is_command:
        return f'is {shown(text)}, not a list; give a list; for a shell write command: ["sh", "-c", "..."]'
    written = command_for(text) if is_command else arguments_for(text)
    return f"is {shown(text)}, not a list; write {written}"


def shown(value: object) -> str:
    """A value as a message shows it, kept short."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= 60 else f'"{value[:57]}..."'
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= _LONGEST_NUMBER:
        return "a number of more than 60 digits"
    if isinstance(value, int | float):
        return str(value)
    return f"a {type(value).__name__}"


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((outer + ".", outer + "["))


def _names(declared: tuple[DeclaredField, ...]) -> str:
    return ", ".join(field.name for field in declared)


def _quoted(value: object) -> str:
    if isinstance(value, bool | int | float):
        return f'write it in quotes: "{shown(value)}"'
    return "give a text"


def _ask(declared: Declared) -> str:
    if declared.form:
        return f"give {declared.form}"
    if declared.nested is not None:
        return f"give an object with the fields {_names(declared_fields(declared.nested))}"
    return f"give a {declared.kind.value}"


def _text(declared: Declared, raw: object) -> str:
    if not isinstance(raw, str):
        raise ValueError(f"is {shown(raw)}; {_quoted(raw)}")
    if declared.longest is not None and len(raw) > declared.longest:
        raise ValueError(
            f"has {len(raw)} characters; give {declared.form} of at most {declared.longest} characters"
        )
    if declared.pattern is not None and not re.fullmatch(declared.pattern, raw, re.ASCII):
        raise ValueError(f"is {shown(raw)}; give {declared.form}")
    return raw


def _choice(declared: Declared, raw: object) -> object:
    for member in declared.enum or ():
        if member.value == raw:
            return member
    names = " or ".join((", ".join(declared.choices[:-1]), declared.choices[-1]))
    near = [choice for choice in declared.choices if isinstance(raw, str) and plain(choice) == plain(raw)]
    near = near or get_close_matches(str(raw), declared.choices, n=1, cutoff=0.7)
    raise ValueError(
        f"is {shown(raw)}; {f'did you mean {near[0]}? The values are {names}' if near else f'give {names}'}"
    )


def _boolean(declared: Declared, raw: object) -> bool:
    del declared
    if not isinstance(raw, bool):
        raise ValueError(f"is {shown(raw)}; write true or false, without quotes")
    return raw


def _integer(declared: Declared, raw: object) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int):
        raise ValueError(f"is {shown(raw)}; give a whole number {declared.range()}, without quotes")
    return int(_bounded(declared, raw, raw))


def _number(declared: Declared, raw: object) -> float:
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not is_finite(raw):
        raise ValueError(f"is {shown(raw)}; give a number {declared.range()}, without quotes")
    return float(_bounded(declared, raw, raw))


def _duration(declared: Declared, raw: object) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool) and is_finite(raw) and 0 <= raw <= LONGEST:
        raise ValueError(
            f'is the number {raw}; durations have a unit: write "{format_duration(raw)}" for seconds'
        )
    if not isinstance(raw, str):
        raise ValueError(f'is {shown(raw)}; write a duration such as "30s", "5m" or "1h30m"')
    if declared.unlimited and raw == UNLIMITED:
        return inf
    try:
        return _bounded(declared, parse_duration(raw), raw)
    except ValueError as error:
        raise ValueError(f"{error}, or {UNLIMITED}" if declared.unlimited else str(error)) from error


def _size(declared: Declared, raw: object) -> int:
    if not isinstance(raw, str | int):
        raise ValueError(f'is {shown(raw)}; write a size such as 65536, "64Ki" or "1Mi"')
    return int(_bounded(declared, parse_size(raw), raw))


def _bounded(declared: Declared, value: float, raw: object) -> float:
    least, most = declared.least, declared.most
    if (least is not None and value < least) or (most is not None and value > most):
        text = raw if isinstance(raw, str) else shown(raw)
        raise ValueError(f"is {text}; give a value {declared.range()}")
    return value


_SCALARS: dict[Kind, Callable[[Declared, object], object]] = {
    Kind.TEXT: _text,
    Kind.CHOICE: _choice,
    Kind.BOOLEAN: _boolean,
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.DURATION: _duration,
    Kind.SIZE: _size,
}
