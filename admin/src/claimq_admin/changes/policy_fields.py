"""The fields of a policy on the command line: how their values are read and shown. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from claimq.arguments import (
    Checked,
    Choice,
    Count,
    Flag,
    Number,
    OptionalCount,
    OptionalSeconds,
    OptionalSize,
    Seconds,
    Size,
    did_you_mean,
)
from claimq.limits import Limits, LimitsField, shown_limits
from claimq.policy import POLICY_FIELDS, Policy, PolicyChanges, PolicyField
from claimq.waiting.fairness import Weights, WeightsField, read_weights, shown_weights
from claimq.waiting.texts import read_limits
from claimq_admin.errors import USAGE, CommandError
from claimq_process.duration import format_duration, parse_duration
from claimq_process.size import format_size, parse_size

NONE = "none"
"""The value of a field that is not set: no limit, no timeout."""


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("write a whole number") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("write a number") from None


def _yes_or_no(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _limits(limits: str | Limits) -> str:
    return limits if isinstance(limits, str) else shown_limits(limits) or NONE


def _weights(weights: str | Weights) -> str:
    return weights if isinstance(weights, str) else shown_weights(weights) or NONE


def _grouped(count: int) -> str:
    return f"{count:,}"


_FORMS: Mapping[type[Checked[Any, Any]], tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    Seconds: (parse_duration, format_duration),
    OptionalSeconds: (parse_duration, format_duration),
    Count: (_count, _grouped),
    OptionalCount: (_count, _grouped),
    Size: (parse_size, format_size),
    OptionalSize: (parse_size, format_size),
    Number: (_number, lambda number: f"{number:g}"),
    Flag: (_yes_or_no, lambda flag: str(flag).lower()),
    Choice: (str, str),
    WeightsField: (lambda text: read_weights("" if text == NONE else text), _weights),
    LimitsField: (lambda text: read_limits("" if text == NONE else text), _limits),
}
"""How the values of a field are read and shown, by its declaration."""


def _read(field: PolicyField, text: str) -> Any:
    declared = field.declared
    read, _ = _FORMS[type(declared)]
    if declared.is_optional and text == NONE:
        return None
    if isinstance(declared, Choice) and text not in declared.members:
        raise ValueError(f"write one of {', '.join(declared.members)}")
    return read(text)


def read_changes(changes: Sequence[str]) -> PolicyChanges:
    """The changes that the words FIELD=VALUE name. CommandError for a wrong word, with the fix."""
    fields: dict[str, Any] = {}
    for change in changes:
        field, equals, text = change.partition("=")
        if not equals:
            raise CommandError(f'"{change}" has no value; write {field}=VALUE', USAGE)
        policy_field = POLICY_FIELDS.get(field)
        if policy_field is None:
            advice = did_you_mean(field, POLICY_FIELDS) or f"; write one of {', '.join(POLICY_FIELDS)}"
            raise CommandError(f'the policy has no field "{field}"{advice}', USAGE)
        if field in fields:
            raise CommandError(f"{field} is given twice; give it once", USAGE)
        try:
            fields[field] = _read(policy_field, text)
        except ValueError as error:
            raise CommandError(f'{field}: "{text}" is not valid: {error}', USAGE) from error
    return cast("PolicyChanges", fields)


def fields_of(policy: Policy) -> dict[str, Any]:
    """The fields of a policy by their names on the command line: durations in seconds, sizes in bytes, limits as text
    (None: no limits)."""
    values = {name: field.of(policy) for name, field in POLICY_FIELDS.items()}
    return values | {
        "limits": shown_limits(policy.limits) or None,
        "fairness_weights": shown_weights(policy.fairness.weights) or None,
    }


def shown(field: str, value: Any) -> str:
    """The value of a field, as the command line has it."""
    return NONE if value is None else _FORMS[type(POLICY_FIELDS[field].declared)][1](value)
