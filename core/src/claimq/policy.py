"""The policy of a queue, changes to its fields, and its form in the queue's ``config`` hash on the server.

Scripts read the hash whenever they run, so a change applies at once to items that are already in the queue, and to
clients in every language. A field that is absent has the default given here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import isfinite
from typing import Any, TypedDict, cast

from claimq.arguments import YEAR, Choice, Duration, OptionalSeconds, Seconds, count, number, of_type

LONGEST_LEASE = 7 * 86_400.0
"""Longest lease in seconds; the scripts enforce it too."""
LARGEST_PAYLOAD = 512 * 1024 * 1024
"""Largest value that the server stores, in bytes."""

_LONGEST = 100
"""Characters of a stored value; those that the scripts write are shorter."""


class OnExpiry(StrEnum):
    """Where an item goes when its lease has expired."""

    REQUEUE = "requeue"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True)
class RetryDelay:
    """The delay before a failed item is retried: none by default.

    The k-th requeue waits ``min(max, initial * factor ** (k - 1))`` seconds, of which up to the share
    ``jitter`` (0 to 1) is taken away at random: 0 is exact, 1 is "full jitter".
    """

    initial: Seconds = Seconds(0.0, most=YEAR, within="retry_delay.")
    factor: float = 2.0
    max: Seconds = Seconds(300.0, most=YEAR, within="retry_delay.")
    jitter: float = 0.0

    def __post_init__(self) -> None:
        number("retry_delay.factor", self.factor, least=1, most=1000)
        number("retry_delay.jitter", self.jitter, least=0, most=1)

    def longest(self, requeue_count: int) -> float:
        """The delay in seconds before the given requeue (1 is the first) when no jitter is taken away."""
        if self.initial == 0 or requeue_count < 1:
            return 0.0
        try:
            return min(self.max, self.initial * self.factor ** (requeue_count - 1))
        except OverflowError:
            return self.max


class Match(StrEnum):
    """Which filters an item must pass if two are given."""

    BOTH = "both"
    EITHER = "either"


@dataclass(frozen=True)
class FailedPolicy:
    """Automatic handling of failed items: none by default.

    ``requeue_min_age``: seconds after which a failed item is sent back to main, unless it has been given up
    more than ``requeue_max_given_up_count`` times in its life. ``remove_min_age``: seconds after which a failed
    item is removed, if it has also been given up at least ``remove_min_given_up_count`` times; with
    ``remove_match=EITHER`` one of the two is enough. ``max_items``: the number of newest items that are kept.
    """

    requeue_min_age: OptionalSeconds = OptionalSeconds(None, within="failed.")
    requeue_max_given_up_count: int | None = None
    remove_min_age: OptionalSeconds = OptionalSeconds(None, within="failed.")
    remove_min_given_up_count: int | None = None
    max_items: int | None = None
    remove_match: Choice[Match] = Choice(Match.BOTH, within="failed.")

    def __post_init__(self) -> None:
        for name, least in (
            ("requeue_max_given_up_count", 1),
            ("remove_min_given_up_count", 0),
            ("max_items", 1),
        ):
            if (limit := getattr(self, name)) is not None:
                count(f"failed.{name}", limit, least=least)
        if self.requeue_max_given_up_count is not None and self.requeue_min_age is None:
            raise ValueError(
                "failed.requeue_max_given_up_count does nothing without failed.requeue_min_age; give both"
            )
        needs_age = self.remove_match is Match.BOTH and self.remove_min_age is None
        if self.remove_min_given_up_count is not None and needs_age:
            raise ValueError(
                "failed.remove_min_given_up_count does nothing without failed.remove_min_age; give both, or "
                "remove_match=Match.EITHER to remove by the count alone"
            )


class Durability(StrEnum):
    """Where an item is stored when its enqueue returns. Otherwise it raises :class:`claimq.NotReplicated`.

    ``PRIMARY``: the primary, as safely as its settings make it. ``REPLICATED``: at least one replica too, or as many as
    ``durability_replicas`` says. ``FSYNCED``: the disk of the primary and those of the replicas (all with appendonly);
    it needs Redis 8.2, or ``appendfsync_always`` (then Redis 7.2 or Valkey).
    """

    PRIMARY = "primary"
    REPLICATED = "replicated"
    FSYNCED = "fsynced"


@dataclass(frozen=True)
class Policy:
    """Settings of a queue. Sizes are in bytes. Durations are seconds; a :class:`datetime.timedelta` may be given."""

    requeue_limit: int = 5
    """How often an item may be requeued. After that it goes to failed; with 0, after the first failure."""
    busy_expiry: Seconds = Seconds(30.0, least=0.001, most=LONGEST_LEASE)
    """The length of a lease. A claim that is neither settled nor renewed for this long expires."""
    on_expiry: Choice[OnExpiry] = Choice(OnExpiry.REQUEUE)
    """Where an item goes when its lease has expired."""
    retry_delay: RetryDelay = RetryDelay()
    """The delay before a failed item is retried."""
    claim_wait_timeout: OptionalSeconds = OptionalSeconds(1.0, most=86_400.0)
    """How long a claim waits for an item by default. None: forever."""
    max_payload: int = 1024 * 1024
    """Enqueueing a larger payload is refused."""
    id_window: Seconds = Seconds(3600.0, least=1.0, most=YEAR)
    """How long a producer's id is remembered. Enqueueing the id again within this time adds nothing."""
    failed: FailedPolicy = FailedPolicy()
    """Automatic handling of failed items."""
    durability: Choice[Durability] = Choice(Durability.PRIMARY)
    """Where an item is stored when its enqueue returns."""
    durability_replicas: int = 1
    """The number of replicas that have to confirm, if ``durability`` requires replicas."""
    appendfsync_always: bool = False
    """Declares that ``appendfsync`` is ``always`` on the primary and on all replicas. Without it, servers that can
    confirm before their fsync refuse ``FSYNCED``: Redis before 8.2, and Valkey."""
    durable_done: bool = False
    """Whether ``done`` waits for replicas too, so that no finished item is delivered again after a failover."""
    suspended: bool = False
    """Whether claims are stopped; everything else works. Independent of ``pause`` and ``resume``."""

    def __post_init__(self) -> None:
        count("requeue_limit", self.requeue_limit, most=1_000_000)
        count("max_payload", self.max_payload, least=1, most=LARGEST_PAYLOAD)
        of_type("retry_delay", self.retry_delay, RetryDelay, "a RetryDelay")
        of_type("failed", self.failed, FailedPolicy, "a FailedPolicy")
        count("durability_replicas", self.durability_replicas, least=1, most=99)
        for name in ("appendfsync_always", "durable_done", "suspended"):
            of_type(name, getattr(self, name), bool, "True or False")

    def to_fields(self) -> dict[str, str]:
        """The ``config`` hash: every field, durations in whole milliseconds; an unset limit is an empty string."""
        failed, retry = self.failed, self.retry_delay
        return {
            "requeue_limit": str(self.requeue_limit),
            "busy_expiry_ms": _ms(self.busy_expiry),
            "on_expiry": self.on_expiry.value,
            "retry_initial_ms": _ms(retry.initial),
            "retry_factor": repr(float(retry.factor)),
            "retry_max_ms": _ms(retry.max),
            "retry_jitter": repr(float(retry.jitter)),
            "claim_wait_ms": _optional(self.claim_wait_timeout, scale=1000),
            "max_payload": str(self.max_payload),
            "id_window_ms": _ms(self.id_window),
            "failed_requeue_min_age_ms": _optional(failed.requeue_min_age, scale=1000),
            "failed_requeue_max_fail_count": _optional(failed.requeue_max_given_up_count),
            "failed_remove_min_age_ms": _optional(failed.remove_min_age, scale=1000),
            "failed_remove_min_fail_count": _optional(failed.remove_min_given_up_count),
            "failed_max_items": _optional(failed.max_items),
            "failed_remove_match": failed.remove_match.value,
            "durability": self.durability.value,
            "durability_replicas": str(self.durability_replicas),
            "appendfsync_always": "1" if self.appendfsync_always else "0",
            "durable_done": "1" if self.durable_done else "0",
            "suspended": "1" if self.suspended else "0",
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Policy:
        """The policy in a ``config`` hash; absent fields have their defaults, unknown ones are ignored.

        Raises :class:`ValueError` for a value that no release writes, naming the field.
        """
        whole = {**cls().to_fields(), **{name: _cut(text) for name, text in fields.items()}}

        def value(name: str, scale: int = 1) -> float:
            return _number(name, whole[name]) / scale

        def seconds(name: str) -> float | None:
            return value(name, 1000) if whole[name] else None

        def limit(name: str) -> int | None:
            return int(value(name)) if whole[name] else None

        return cls(
            requeue_limit=int(value("requeue_limit")),
            busy_expiry=value("busy_expiry_ms", 1000),
            on_expiry=OnExpiry(whole["on_expiry"]),
            retry_delay=RetryDelay(
                initial=value("retry_initial_ms", 1000),
                factor=value("retry_factor"),
                max=value("retry_max_ms", 1000),
                jitter=value("retry_jitter"),
            ),
            claim_wait_timeout=seconds("claim_wait_ms"),
            max_payload=int(value("max_payload")),
            id_window=value("id_window_ms", 1000),
            failed=FailedPolicy(
                requeue_min_age=seconds("failed_requeue_min_age_ms"),
                requeue_max_given_up_count=limit("failed_requeue_max_fail_count"),
                remove_min_age=seconds("failed_remove_min_age_ms"),
                remove_min_given_up_count=limit("failed_remove_min_fail_count"),
                max_items=limit("failed_max_items"),
                remove_match=Match(whole["failed_remove_match"]),
            ),
            durability=Durability(whole["durability"]),
            durability_replicas=int(value("durability_replicas")),
            appendfsync_always=whole["appendfsync_always"] == "1",
            durable_done=whole["durable_done"] == "1",
            suspended=whole["suspended"] == "1",
        )


def _cut(text: str) -> str:
    """A stored value; of one that is too long, which another client wrote, a part that is no valid value."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ValueError(f"the config field {name} is {text!r}; set it to a number")
    return number


def _ms(seconds: float) -> str:
    return str(round(seconds * 1000))


def _optional(number: float | None, scale: int = 1) -> str:
    return "" if number is None else str(round(number * scale))


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
    durability_replicas: int
    appendfsync_always: bool
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
    fields_by_name = cast("dict[str, Any]", dict(changes))
    if not fields_by_name:
        raise TypeError("name at least one field of the policy to change")
    if unknown := sorted(fields_by_name.keys() - PolicyChanges.__annotations__.keys()):
        raise TypeError(f"{unknown[0]} is not a field of the policy")
    whole = {name: value for name, value in fields_by_name.items() if name in PolicyFields.__annotations__}
    for group, empty in (("retry_delay", RetryDelay()), ("failed", _ANY_AGE)):
        single = {name: fields_by_name[name] for name in fields_by_name if name.startswith(f"{group}_")}
        if single and group in fields_by_name:
            raise ValueError(f"{group} and {next(iter(single))} are both given; give one of them")
        if single:
            inner = {name.removeprefix(f"{group}_"): value for name, value in single.items()}
            whole[group] = replace(cast("Any", empty), **inner)
    config = Policy(**whole).to_fields()
    return {
        field: value for field, value in config.items() if any(_sets(name, field) for name in fields_by_name)
    }


def _sets(name: str, field: str) -> bool:
    """Whether a change of that name sets the field of the hash."""
    if prefix := _GROUPS.get(name):
        return field.startswith(prefix)
    plain = _CONFIG_NAMES.get(name, name)
    for ours, theirs in _RENAMED.items():
        plain = plain.replace(ours, theirs)
    return field in (plain, f"{plain}_ms")
