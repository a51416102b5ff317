"""The policy of a queue, changes to its fields, and its form in the queue's ``config`` hash on the server.

Scripts read the hash whenever they run, so a change applies at once to items that are already in the queue, and to
clients in every language. A field that is absent has the default given here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from math import isfinite
from typing import Any, ClassVar, Final, TypedDict, cast

from claimq.arguments import (
    YEAR,
    Checked,
    Choice,
    Count,
    Duration,
    Flag,
    Number,
    OptionalCount,
    OptionalSeconds,
    OptionalSize,
    Seconds,
    Size,
    did_you_mean,
    of_type,
)
from claimq.limits import Limit, LimitsField, load_limits, stored_limits
from claimq.waiting.fairness import Fairness, Turns, WeightsField, load_weights, stored_weights

LONGEST_LEASE = 7 * 86_400.0
"""Longest lease in seconds; the scripts enforce it too."""
LARGEST_PAYLOAD = 512 * 1024 * 1024
"""Largest value that the server stores, in bytes."""

MOST_BYTES = 1024**5
"""The highest bound on bytes that wait."""
_LONGEST = 100
"""Characters of a stored value; those that the scripts write are shorter."""


class KeyOrder(StrEnum):
    """Whether an item that waits for its retry, or is postponed, holds back the later items of its key."""

    RELAXED = "relaxed"
    STRICT = "strict"


class OnExpiry(StrEnum):
    """Where an item goes when its lease has expired."""

    REQUEUE = "requeue"
    DROP = "drop"
    FAIL = "fail"


@dataclass(frozen=True)
class RetryDelay:
    """The delay before a failed item is retried: by default 1 s, then 2, 4, 8 and so on, up to 5 minutes.

    The k-th requeue waits ``min(max, initial * factor ** (k - 1))`` seconds, of which up to the share
    ``jitter`` (0 to 1) is taken away at random: 0 is exact, 1 is "full jitter". ``initial=0``: no delay. The first
    crash of an item waits for nothing.
    """

    WITHIN: ClassVar[str] = "retry_delay."

    initial: Seconds = Seconds(1.0, most=YEAR)
    factor: Number = Number(2.0, least=1, most=1000)
    max: Seconds = Seconds(300.0, most=YEAR)
    jitter: Number = Number(0.2, least=0, most=1)


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

    WITHIN: ClassVar[str] = "failed."

    requeue_min_age: OptionalSeconds = OptionalSeconds(None)
    requeue_max_given_up_count: OptionalCount = OptionalCount(least=1)
    remove_min_age: OptionalSeconds = OptionalSeconds(None)
    remove_min_given_up_count: OptionalCount = OptionalCount()
    max_items: OptionalCount = OptionalCount(least=1)
    remove_match: Choice[Match] = Choice(Match.BOTH)

    def __post_init__(self) -> None:
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


@dataclass(frozen=True)
class MaxWaiting:
    """A bound on what waits, in main or delayed: none by default. An enqueue over it raises
    :class:`claimq.QueueFull`, and stores nothing of its call.

    ``items`` and ``bytes``: of the whole queue. ``per_client_items`` and ``per_client_bytes``: of each client; items
    without a client have no bound of their own. An item's bytes are those of its payload and its header. It refuses new
    items only: requeued and returned ones, and those that follow from an item (``done(enqueue=...)``), are stored all
    the same.
    """

    WITHIN: ClassVar[str] = "max_waiting."

    items: OptionalCount = OptionalCount(least=1)
    per_client_items: OptionalCount = OptionalCount(least=1)
    bytes: OptionalSize = OptionalSize(least=1, most=MOST_BYTES)
    per_client_bytes: OptionalSize = OptionalSize(least=1, most=MOST_BYTES)


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

    requeue_limit: Count = Count(5, most=1_000_000)
    """How often an item may be requeued. After that it goes to failed; with 0, after the first failure."""
    max_postponed: Count = Count(1000, most=1_000_000)
    """How often an item may be postponed (``later``). After that it goes to failed."""
    busy_expiry: Seconds = Seconds(30.0, least=0.001, most=LONGEST_LEASE)
    """The length of a lease. A claim that is neither settled nor renewed for this long expires."""
    on_expiry: Choice[OnExpiry] = Choice(OnExpiry.REQUEUE)
    """Where an item goes when its lease has expired."""
    retry_delay: RetryDelay = RetryDelay()
    """The delay before a failed item is retried."""
    key_order: Choice[KeyOrder] = Choice(KeyOrder.RELAXED)
    """Whether the later items of a key go on (``RELAXED``) or wait (``STRICT``) while one is retried or postponed."""
    claim_wait_timeout: OptionalSeconds = OptionalSeconds(1.0, most=86_400.0)
    """How long a claim waits for an item by default. None: forever."""
    max_payload: Size = Size(1024 * 1024, least=1, most=LARGEST_PAYLOAD)
    """Enqueueing a larger payload is refused. An item of 8 MiB blocks the server for up to 80 ms."""
    max_waiting: MaxWaiting = MaxWaiting()
    """A bound on what waits."""
    id_window: Seconds = Seconds(3600.0, least=1.0, most=YEAR)
    """How long a producer's id is remembered. Enqueueing the id again within this time adds nothing."""
    failed: FailedPolicy = FailedPolicy()
    """Automatic handling of failed items."""
    durability: Choice[Durability] = Choice(Durability.PRIMARY)
    """Where an item is stored when its enqueue returns."""
    durability_replicas: Count = Count(1, least=1, most=99)
    """The number of replicas that have to confirm, if ``durability`` requires replicas."""
    appendfsync_always: Flag = Flag()
    """Declares that ``appendfsync`` is ``always`` on the primary and on all replicas. Without it, servers that can
    confirm before their fsync refuse ``FSYNCED``: Redis before 8.2, and Valkey."""
    durable_done: Flag = Flag()
    """Whether ``done`` waits for replicas too, so that no finished item is delivered again after a failover."""
    fairness: Fairness = Fairness()
    """How the clients of the queue take turns."""
    limits: LimitsField = LimitsField()
    """How many items may start in a time, or be in progress at once: up to 8 limits, which hold together."""
    suspended: Flag = Flag()
    """Whether claims are stopped; everything else works. Independent of ``pause`` and ``resume``."""

    def __post_init__(self) -> None:
        of_type("retry_delay", self.retry_delay, RetryDelay, "a RetryDelay, such as RetryDelay(initial=5)")
        of_type("failed", self.failed, FailedPolicy, "a FailedPolicy")
        of_type("max_waiting", self.max_waiting, MaxWaiting, "a MaxWaiting")
        of_type("fairness", self.fairness, Fairness, "a Fairness")

    def to_fields(self) -> dict[str, str]:
        """The ``config`` hash: every field, durations in whole milliseconds; an unset limit is an empty string."""
        return {field.key: field.store(field.of(self)) for field in POLICY_FIELDS.values()}

    @classmethod
    def from_fields(cls, fields: Mapping[str, str]) -> Policy:
        """The policy in a ``config`` hash; absent fields have their defaults, unknown ones are ignored.

        Raises :class:`ValueError` for a value that no release writes, naming the field.
        """
        stored = [field for field in POLICY_FIELDS.values() if field.key in fields]
        return cls(
            **in_groups({field.name: field.load(_cut(fields[field.key], field.longest)) for field in stored})
        )


@dataclass(frozen=True, slots=True)
class PolicyField:
    """A single field of a policy, as ``update_policy``, the command line and the ``config`` hash name it."""

    name: str
    group: str
    """The field of :class:`Policy` that it is part of, or ""."""
    declared: Checked[Any, Any]

    @property
    def key(self) -> str:
        """Its name in the hash."""
        return f"{self.name}_ms" if self._is_duration else self.name

    @property
    def longest(self) -> int:
        """Characters of its value in the hash, at most."""
        if isinstance(self.declared, WeightsField):
            return 2000 * _LONGEST
        return 400 * _LONGEST if isinstance(self.declared, LimitsField) else _LONGEST

    @property
    def _is_duration(self) -> bool:
        return isinstance(self.declared, Seconds | OptionalSeconds)

    def of(self, policy: Policy) -> Any:
        """Its value in a policy."""
        return getattr(getattr(policy, self.group) if self.group else policy, self.declared.name)

    def store(self, value: Any) -> str:
        """A value as the hash has it."""
        if value is None:
            return ""
        if self._is_duration:
            return str(round(value * 1000))
        if isinstance(self.declared, LimitsField):
            return stored_limits(value)
        if isinstance(self.declared, WeightsField):
            return stored_weights(value)
        if isinstance(self.declared, Flag):
            return str(int(value))
        return repr(float(value)) if isinstance(self.declared, Number) else str(value)

    def load(self, text: str) -> Any:
        """The value of a field of the hash. Raises ValueError for one that is no number."""
        if isinstance(self.declared, Choice):
            return text
        if isinstance(self.declared, LimitsField):
            return load_limits(text)
        if isinstance(self.declared, WeightsField):
            return load_weights(text)
        if isinstance(self.declared, Flag):
            return text == "1"
        if self.declared.is_optional and not text:
            return None
        number = _number(self.key, text)
        if self._is_duration:
            return number / 1000
        return number if isinstance(self.declared, Number) else int(number)


_GROUPS: Final[Mapping[str, Any]] = {
    "retry_delay": RetryDelay(),
    "max_waiting": MaxWaiting(),
    "fairness": Fairness(),
    "failed": FailedPolicy(),
}


def _declared() -> Iterator[PolicyField]:
    for field in fields(Policy):
        if field.name not in _GROUPS:
            yield PolicyField(field.name, "", vars(Policy)[field.name])
            continue
        group: Any = _GROUPS[field.name]
        for inner in fields(group):
            yield PolicyField(f"{field.name}_{inner.name}", field.name, vars(group.__class__)[inner.name])


POLICY_FIELDS: Final[Mapping[str, PolicyField]] = {field.name: field for field in _declared()}
"""All fields, by their names in ``update_policy``."""


def in_groups(values: Mapping[str, Any], defaults: Mapping[str, Any] = _GROUPS) -> PolicyFields:
    """The fields of :class:`Policy` from values by the names of ``update_policy``. ``defaults``: of the groups, for
    fields that are not given."""
    names = {field.name for field in fields(Policy)}
    policy = {name: value for name, value in values.items() if name in names}
    for group, default in defaults.items():
        inner = {
            field.declared.name: values[field.name]
            for field in POLICY_FIELDS.values()
            if field.group == group and field.name in values
        }
        if inner:
            policy[group] = replace(default, **inner)
    return cast("PolicyFields", policy)


def _cut(text: str, longest: int) -> str:
    """A stored value; of one that is too long, which another client wrote, a part that is no valid value."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ValueError(f"the config field {name} is {text!r}; set it to a number")
    return number


class PolicyFields(TypedDict, total=False):
    """Fields of :class:`Policy`."""

    requeue_limit: int
    max_postponed: int
    busy_expiry: Duration
    on_expiry: OnExpiry | str
    retry_delay: RetryDelay
    key_order: KeyOrder | str
    claim_wait_timeout: Duration | None
    max_payload: int
    max_waiting: MaxWaiting
    id_window: Duration
    failed: FailedPolicy
    durability: Durability | str
    durability_replicas: int
    appendfsync_always: bool
    durable_done: bool
    fairness: Fairness
    limits: Iterable[Limit]
    suspended: bool


class PolicyChanges(PolicyFields, total=False):
    """Fields of :class:`Policy`, and each field of its ``retry_delay``, ``max_waiting``, ``fairness`` and
    ``failed``."""

    retry_delay_initial: Duration
    retry_delay_factor: float
    retry_delay_max: Duration
    retry_delay_jitter: float
    max_waiting_items: int | None
    max_waiting_bytes: int | None
    max_waiting_per_client_items: int | None
    max_waiting_per_client_bytes: int | None
    fairness_by: Turns | str
    fairness_weights: Mapping[str, float]
    fairness_reserve: float
    failed_requeue_min_age: Duration | None
    failed_requeue_max_given_up_count: int | None
    failed_remove_min_age: Duration | None
    failed_remove_min_given_up_count: int | None
    failed_max_items: int | None
    failed_remove_match: Match | str


_ANY_AGE = {**_GROUPS, "failed": FailedPolicy(requeue_min_age=0.0, remove_min_age=0.0)}
"""For a count that is given without its age. The server checks whether the age is set."""


def changed_fields(changes: PolicyChanges) -> dict[str, str]:
    """The fields of the ``config`` hash that these changes set.

    Raises :class:`TypeError` for an unknown name or without any, :class:`ValueError` for a value out of bounds or a
    field that is given twice (``failed`` and ``failed_max_items``).
    """
    new_values = cast("dict[str, Any]", dict(changes))
    if not new_values:
        raise TypeError("name at least one field of the policy to change")
    if unknown := sorted(new_values.keys() - POLICY_FIELDS.keys() - _GROUPS.keys()):
        raise TypeError(
            f"the policy has no field {unknown[0]}{did_you_mean(unknown[0], [*_GROUPS, *POLICY_FIELDS])}"
        )
    for name in new_values.keys() - _GROUPS.keys():
        if (group := POLICY_FIELDS[name].group) in new_values:
            raise ValueError(f"{group} and {name} are both given; give one of them")
    policy = Policy(**in_groups(new_values, _ANY_AGE))
    return {
        field.key: field.store(field.of(policy))
        for field in POLICY_FIELDS.values()
        if field.name in new_values or field.group in new_values
    }
