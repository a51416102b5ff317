"""The fields of a policy on the command line: their names, and how their values are read and shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

from claimq.policy import Durability, Match, OnExpiry, Policy, PolicyChanges
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.similar_names import did_you_mean
from claimq_process.duration import format_duration, parse_duration
from claimq_process.size import format_size, parse_size

NONE = "none"
"""The value of a field that is not set: no limit, no timeout."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """How the values of a field are read and shown."""

    read: Callable[[str], Any]
    show: Callable[[Any], str]
    may_be_none: bool = False


def _choice(values: type[StrEnum]) -> _Kind:
    def read(text: str) -> StrEnum:
        try:
            return values(text)
        except ValueError:
            raise ValueError(f"write one of {', '.join(one.value for one in values)}") from None

    return _Kind(read, str)


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _ratio(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number") from None


def _yes_or_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


_DURATION = _Kind(parse_duration, format_duration)
_OPTIONAL_DURATION = _Kind(parse_duration, format_duration, may_be_none=True)
_COUNT = _Kind(_count, lambda value: f"{value:,}")
_OPTIONAL_COUNT = _Kind(_count, lambda value: f"{value:,}", may_be_none=True)
_RATIO = _Kind(_ratio, lambda value: f"{value:g}")
_FLAG = _Kind(_yes_or_no, lambda value: "true" if value else "false")

FIELDS: Mapping[str, _Kind] = {
    "requeue_limit": _COUNT,
    "busy_expiry": _DURATION,
    "on_expiry": _choice(OnExpiry),
    "retry_delay_initial": _DURATION,
    "retry_delay_factor": _RATIO,
    "retry_delay_max": _DURATION,
    "retry_delay_jitter": _RATIO,
    "claim_wait_timeout": _OPTIONAL_DURATION,
    "max_payload": _Kind(parse_size, format_size),
    "id_window": _DURATION,
    "failed_requeue_min_age": _OPTIONAL_DURATION,
    "failed_requeue_max_given_up_count": _OPTIONAL_COUNT,
    "failed_remove_min_age": _OPTIONAL_DURATION,
    "failed_remove_min_given_up_count": _OPTIONAL_COUNT,
    "failed_max_items": _OPTIONAL_COUNT,
    "failed_remove_match": _choice(Match),
    "durability": _choice(Durability),
    "durability_replicas": _COUNT,
    "appendfsync_always": _FLAG,
    "durable_done": _FLAG,
    "suspended": _FLAG,
}
"""The fields that the command shows and changes, by the names of `update_policy`."""


def read_changes(changes: Sequence[str]) -> PolicyChanges:
    """The changes that the words FIELD=VALUE name. CommandError for a wrong word, with the fix."""
    found: dict[str, Any] = {}
    for change in changes:
        field, equals, text = change.partition("=")
        if not equals:
            raise CommandError(f'"{change}" has no value; write {field}=VALUE', USAGE)
        kind = FIELDS.get(field)
        if kind is None:
            advice = did_you_mean(field, FIELDS) or f"; write one of {', '.join(FIELDS)}"
            raise CommandError(f'the policy has no field "{field}"{advice}', USAGE)
        if field in found:
            raise CommandError(f"{field} is given twice; give it once", USAGE)
        try:
            found[field] = None if kind.may_be_none and text == NONE else kind.read(text)
        except ValueError as error:
            raise CommandError(f'{field}: "{text}" is not valid: {error}', USAGE) from error
    return cast("PolicyChanges", found)


def fields_of(policy: Policy) -> dict[str, Any]:
    """The fields of a policy by their names on the command line: durations in seconds, sizes in bytes."""
    nested = asdict(policy)
    flat = {name: value for name, value in nested.items() if name not in ("retry_delay", "failed")}
    for group in ("retry_delay", "failed"):
        flat |= {f"{group}_{name}": value for name, value in nested[group].items()}
    return {name: flat[name] for name in FIELDS}


def shown(field: str, value: Any) -> str:
    """The value of a field, as the command line has it."""
    return NONE if value is None else FIELDS[field].show(value)
