"""`claimq policy`: shows the policy of a queue and changes fields of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, cast

import click

from claimq.policy import Durability, Match, OnExpiry, Policy, PolicyChanges, changed_fields
from claimq.queue.internals import internals
from claimq.queue.owner import Owner
from claimq_cli.commands.context import Context, with_context
from claimq_cli.commands.queue_argument import queue_argument
from claimq_cli.errors import USAGE, CommandError
from claimq_cli.local_user import local_user
from claimq_cli.output import terminal
from claimq_cli.output.owners import owner_text
from claimq_spec.duration import format_duration, parse_duration
from claimq_spec.quantity import format_size, parse_size

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
    "durable_done": _FLAG,
    "suspended": _FLAG,
}
"""The fields that the command shows and changes, by the names of `update_policy`."""


@click.command()
@queue_argument
@click.argument("changes", nargs=-1, metavar="[FIELD=VALUE]...")
@with_context
async def policy(context: Context, name: str, changes: tuple[str, ...]) -> None:
    """Show the policy of the queue NAME, or change fields of it.

    All changes of one call are made in one step; the other fields stay as they are. Durations have a unit (30s, 5m),
    sizes may have one (1Mi), and `none` removes a limit.

    \b
    claimq policy thumbnails
    claimq policy thumbnails requeue_limit=3 busy_expiry=2m failed_max_items=none
    """
    changed = read_changes(changes)
    async with context.changed_queue(name) if changed else context.queue(name) as queue:
        # Read first: if the owner cannot be read, the command ends before it changes anything.
        owner = await internals(queue).owner()
        if changed:
            changed_fields(changed)  # raises ValueError before anything is recorded
            await queue.record_action(local_user(), "policy", " ".join(changes))
            await queue.update_policy(**changed)
        now = fields_of(await queue.policy())
    document = {
        "queue": name,
        "policy": now,
        "owner": None if owner is None else str(owner),
        "changed": sorted(changed),
    }
    rows = [[field, _shown(field, now[field])] for field in FIELDS if not changed or field in changed]
    context.answers.give_table(document, ["field", "value"], rows)
    if owner is not None and changed:
        terminal.say_error(_warning(name, owner))


def read_changes(changes: tuple[str, ...]) -> PolicyChanges:
    """The changes that the arguments FIELD=VALUE name. CommandError for a wrong argument, with the fix."""
    found: dict[str, Any] = {}
    for change in changes:
        field, equals, text = change.partition("=")
        if not equals:
            raise CommandError(f'"{change}" has no value; write {field}=VALUE', USAGE)
        kind = FIELDS.get(field)
        if kind is None:
            raise CommandError(f'the policy has no field "{field}"; write one of {", ".join(FIELDS)}', USAGE)
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


def _shown(field: str, value: Any) -> str:
    return NONE if value is None else FIELDS[field].show(value)


def _warning(name: str, owner: Owner) -> str:
    return (
        f"warning: the operator sets the policy of {name} from {owner_text(owner)}; it "
        "reverts changes of fields that the manifest sets, so change those in the manifest"
    )
