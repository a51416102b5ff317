"""Declares the fields of the manifest: each once, on the dataclass that holds its value.

A declaration has what the parser checks and what the CRD and the reference page show: kind, default, bounds,
choices, pattern, description. All generators and comparisons iterate over :func:`declared_fields`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, cast

from claimq_control.quantity import QUANTITY_PATTERN
from claimq_process.duration import DURATION_PATTERN, format_duration, parse_duration
from claimq_process.size import SIZE_PATTERN, format_size, parse_size

_KEY = "claimq"
UNLIMITED = "Unlimited"
"""The value of a duration without a limit; infinity in Python."""


class Kind(StrEnum):
    """What a field holds. The comment gives the value in Python."""

    TEXT = "text"  # str
    CHOICE = "choice"  # a StrEnum
    BOOLEAN = "boolean"  # bool
    INTEGER = "integer"  # int
    NUMBER = "number"  # float
    DURATION = "duration"  # float, seconds
    SIZE = "size"  # int, bytes
    TEXTS = "list of text"  # tuple[str, ...]
    TEXT_MAP = "map of text"  # Mapping[str, str]
    QUANTITY_MAP = "map of quantities"  # Mapping[str, str]
    OBJECT = "object"  # the dataclass `nested`
    OBJECTS = "list of objects"  # tuple of the dataclass `nested`
    FREE = "free object"  # Mapping[str, object], passed on without nulls
    FREE_LIST = "list of free objects"  # tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """One field of the manifest."""

    kind: Kind
    doc: str
    """One or more sentences, with the unit if there is one; :meth:`describe` adds default and bounds."""
    default: object = None
    """As a manifest would write it; None: there is none."""
    required: bool = False
    least: float | None = None
    """Smallest value: seconds for durations, bytes for sizes, entries for lists."""
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str | None = None
    """Regular expression (RE2) over the whole text; for a map, over its values."""
    form: str = ""
    """What the pattern means, for people: "a DNS label (...)"."""
    longest: int | None = None
    """Maximum number of characters."""
    nested: type[Any] | None = None
    optional: bool = False
    """Whether the absence of this object is None in Python instead of an object of defaults."""
    enum: type[StrEnum] | None = None
    immutable: bool = False
    absent: str = ""
    """The meaning of an absent field without default, such as "no limit"."""
    unlimited: bool = False
    """Whether a duration may also be ``Unlimited``."""

    def shown(self, bound: float | None) -> str:
        """A bound as a manifest would write it."""
        if bound is None:
            return ""
        if self.kind is Kind.DURATION:
            return format_duration(bound)
        return (
            format_size(int(bound))
            if self.kind is Kind.SIZE
            else f"{bound:g}"
            if bound < 1e6
            else str(int(bound))
        )

    def range(self) -> str:
        """The bounds in words: ``from 0 to 10``; empty when there are none."""
        least, most = self.shown(self.least), self.shown(self.most)
        if least and most:
            return f"from {least} to {most}"
        return f"of at least {least}" if least else f"of at most {most}" if most else ""

    def default_text(self) -> str:
        """The default as a manifest would write it; empty if there is none."""
        if self.default is None:
            return ""
        if self.kind is Kind.QUANTITY_MAP:
            entries = cast("Mapping[str, str]", self.default)
            return "{" + ", ".join(f"{key}: {value}" for key, value in entries.items()) + "}"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)

    def describe(self) -> str:
        """The whole description, with default, bounds and mutability, for the CRD and the reference page."""
        parts = [self.doc]
        if self.required:
            parts.append("Required.")
        if default := self.default_text():
            parts.append(f"Default: {default}.")
        elif self.absent:
            has_fields = self.kind is Kind.OBJECT and not self.optional
            parts.append(f"Default: {self.absent}." if has_fields else f"Default: none ({self.absent}).")
        if bounds := self.range():
            parts.append(
                f"Allowed: {bounds.removeprefix('of ')}{f', or {UNLIMITED}' if self.unlimited else ''}."
            )
        if self.immutable:
            parts.append("Cannot be changed later.")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class DeclaredField:
    """A declaration with its two names."""

    attribute: str
    """In Python: ``min_replicas``."""
    name: str
    """In the manifest: ``minReplicas``."""
    declared: Declared


def camel(attribute: str) -> str:
    """``min_replicas`` -> ``minReplicas``."""
    first, *words = attribute.split("_")
    return first + "".join(word.capitalize() for word in words)


def declared_fields(spec: type[Any]) -> tuple[DeclaredField, ...]:
    """The declared fields of one object of the manifest, in the order of the page."""
    return tuple(
        DeclaredField(attribute.name, camel(attribute.name), attribute.metadata[_KEY])
        for attribute in fields(spec)
        if _KEY in attribute.metadata
    )


def walk(spec: type[Any], path: str) -> Iterator[tuple[str, Declared]]:
    """Every field below ``spec`` with its path (``spec.busyExpiry``, ``spec.worker.env[].name``), parents first."""
    for child in declared_fields(spec):
        here = f"{path}.{child.name}"
        yield here, child.declared
        if child.declared.nested is not None:
            yield from walk(
                child.declared.nested, here + ("[]" if child.declared.kind is Kind.OBJECTS else "")
            )


def _field(declared: Declared, default: object = None) -> Any:
    return field(default=cast("Any", default), metadata={_KEY: declared})


def text(
    doc: str,
    *,
    default: str | None = None,
    required: bool = False,
    pattern: str | None = None,
    form: str = "",
    longest: int | None = None,
    immutable: bool = False,
    absent: str = "",
) -> Any:
    """A text."""
    declared = Declared(
        Kind.TEXT,
        doc,
        default=default,
        required=required,
        pattern=pattern,
        form=form,
        longest=longest,
        immutable=immutable,
        absent=absent,
    )
    return _field(declared, default if default is not None else "" if required else None)


def choice(doc: str, default: StrEnum) -> Any:
    """One of the values of an enumeration."""
    kinds = type(default)
    choices = tuple(member.value for member in kinds)
    return _field(Declared(Kind.CHOICE, doc, default=default.value, choices=choices, enum=kinds), default)


def boolean(doc: str, *, default: bool) -> Any:
    """true or false."""
    return _field(Declared(Kind.BOOLEAN, doc, default=default), default)


def integer(doc: str, *, default: int | None = None, least: int, most: int, absent: str = "") -> Any:
    """A whole number between bounds."""
    return _field(
        Declared(Kind.INTEGER, doc, default=default, least=least, most=most, absent=absent), default
    )


def number(doc: str, *, default: float, least: float, most: float) -> Any:
    """A number between bounds."""
    page_default = int(default) if default == int(default) else default
    return _field(Declared(Kind.NUMBER, doc, default=page_default, least=least, most=most), default)


def duration(
    doc: str,
    *,
    default: float | None = None,
    least: str,
    most: str,
    absent: str = "",
    unlimited: bool = False,
) -> Any:
    """A duration; ``default`` in seconds, bounds as in a manifest. ``unlimited``: ``Unlimited`` is allowed too."""
    declared = Declared(
        Kind.DURATION,
        doc,
        default=None if default is None else format_duration(default),
        least=parse_duration(least),
        most=parse_duration(most),
        pattern=DURATION_PATTERN,
        absent=absent,
        unlimited=unlimited,
    )
    return _field(declared, default)


def size(doc: str, *, default: int | None = None, least: str, most: str, absent: str = "") -> Any:
    """A size in bytes; bounds as in a manifest."""
    declared = Declared(
        Kind.SIZE,
        doc,
        default=None if default is None else format_size(default),
        least=parse_size(least),
        most=parse_size(most),
        pattern=SIZE_PATTERN,
        absent=absent,
    )
    return _field(declared, default)


def texts(doc: str, *, absent: str) -> Any:
    """A list of texts."""
    return _field(Declared(Kind.TEXTS, doc, most=256, absent=absent), ())


def text_map(doc: str) -> Any:
    """A map of texts, by default none."""
    declared = Declared(Kind.TEXT_MAP, doc, absent="none")
    return field(default_factory=dict[str, object], metadata={_KEY: declared})


def quantity_map(doc: str, *, default: dict[str, str] | None = None, absent: str = "") -> Any:
    """A map of Kubernetes quantities, as of CPU and memory."""
    declared = Declared(Kind.QUANTITY_MAP, doc, default=default, pattern=QUANTITY_PATTERN, absent=absent)
    return field(default_factory=lambda: dict(default or {}), metadata={_KEY: declared})


def nested(
    doc: str, spec: type[Any], *, required: bool = False, optional: bool = False, absent: str = ""
) -> Any:
    """An object. ``optional``: its absence is None and differs from an empty one."""
    declared = Declared(Kind.OBJECT, doc, required=required, nested=spec, optional=optional, absent=absent)
    if optional:
        return _field(declared)
    return field(default_factory=spec, metadata={_KEY: declared})


def objects(doc: str, spec: type[Any], *, most: int = 256, absent: str) -> Any:
    """A list of objects."""
    return _field(Declared(Kind.OBJECTS, doc, most=most, nested=spec, absent=absent), ())


def free(doc: str, *, absent: str) -> Any:
    """An object of Kubernetes, passed on without the fields that are null."""
    return field(default_factory=dict[str, object], metadata={_KEY: Declared(Kind.FREE, doc, absent=absent)})


def free_list(doc: str, *, absent: str) -> Any:
    """A list of objects of Kubernetes, passed on without the fields that are null."""
    return _field(Declared(Kind.FREE_LIST, doc, most=256, absent=absent), ())
