"""Changes to single fields of a policy, and their form in the queue's ``config`` hash."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypedDict, cast

from claimq.arguments import Duration
from claimq.policy import Durability, FailedPolicy, Match, OnExpiry, Policy, RetryDelay


class PolicyFields(TypedDict, total=False):
    """Fields of :class:`Policy`."""

    requeue_limit: int
    busy_expiry: Duration
    on_expiry: OnExpiry | str
    retry_delay: RetryDelay
    claim_wait_timeout: Duration | None
    max_payload: int
    id_window: Duration
    failed: FailedPolicy
    durability: Durability | str
    durable_done: bool
    suspended: bool


class PolicyChanges(PolicyFields, total=False):
    """Fields of :class:`Policy`, and each field of its ``retry_delay`` and ``failed``."""

    retry_delay_initial: Duration
    retry_delay_factor: float
    retry_delay_max: Duration
    retry_delay_jitter: float
    failed_requeue_min_age: Duration | None
    failed_requeue_max_given_up_count: int | None
    failed_remove_min_age: Duration | None
    failed_remove_min_given_up_count: int | None
    failed_max_items: int | None
    failed_remove_match: Match | str


_CONFIG_NAMES = {"claim_wait_timeout": "claim_wait_ms"}
_GROUPS = {"retry_delay": "retry_", "failed": "failed_"}
_RENAMED = {"retry_delay_": "retry_", "given_up_count": "fail_count"}
_ANY_AGE = FailedPolicy(requeue_min_age=0.0, remove_min_age=0.0)
"""For a count that is given without its age. The server checks whether the age is set."""


def changed_fields(changes: PolicyChanges) -> dict[str, str]:
    """The fields of the ``config`` hash that these changes set.

    Raises :class:`TypeError` for an unknown name or without any, :class:`ValueError` for a value out of bounds or a
    field that is given twice (``failed`` and ``failed_max_items``).
    """
    given = cast("dict[str, Any]", dict(changes))
    if not given:
        raise TypeError("name at least one field of the policy to change")
    if unknown := sorted(given.keys() - PolicyChanges.__annotations__.keys()):
        raise TypeError(f"{unknown[0]} is not a field of the policy")
    whole = {name: value for name, value in given.items() if name in PolicyFields.__annotations__}
    for group, empty in (("retry_delay", RetryDelay()), ("failed", _ANY_AGE)):
        single = {name: given[name] for name in given if name.startswith(f"{group}_")}
        if single and group in given:
            raise ValueError(f"{group} and {next(iter(single))} are both given; give one of them")
        if single:
            inner = {name.removeprefix(f"{group}_"): value for name, value in single.items()}
            whole[group] = replace(cast("Any", empty), **inner)
    config = Policy(**whole).to_fields()
    return {field: value for field, value in config.items() if any(_sets(name, field) for name in given)}


def _sets(name: str, field: str) -> bool:
    """Whether a change of that name sets the field of the hash."""
    if prefix := _GROUPS.get(name):
        return field.startswith(prefix)
    plain = _CONFIG_NAMES.get(name, name)
    for ours, theirs in _RENAMED.items():
        plain = plain.replace(ours, theirs)
    return field in (plain, f"{plain}_ms")
