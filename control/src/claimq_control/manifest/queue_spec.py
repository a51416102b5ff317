"""``spec`` of a ReliableQueue."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from math import isinf
from typing import ClassVar, Final, cast

from claimq.limits import (
    HIGHEST,
    MOST_LIMITS,
    NAME_FORM,
    NAME_PATTERN,
    RATE_FORM,
    RATE_PATTERN,
    Limit,
    Per,
    Unit,
)
from claimq.policy import POLICY_FIELDS, Policy, PolicyFields, in_groups
from claimq_control.manifest.declaring import (
    boolean,
    choice,
    declared_fields,
    duration,
    integer,
    nested,
    number,
    objects,
    size,
    text,
)
from claimq_control.manifest.redis_spec import RedisSpec
from claimq_control.manifest.scaling_spec import ScalingSpec
from claimq_control.manifest.waiting_spec import FairnessSpec, MaxWaitingSpec
from claimq_control.manifest.worker_spec import SidecarSpec, WorkerSpec
from claimq_control.quantity import parse_quantity

_LIBRARY = Policy()

QUEUE_NAME = "^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"


class ExpiryAction(StrEnum):
    """What happens to an item whose lease has expired."""

    REQUEUE = "Requeue"
    DROP = "Drop"
    FAIL = "Fail"


class KeyOrderSpec(StrEnum):
    """Whether a retry holds back the later items of its key."""

    RELAXED = "Relaxed"
    STRICT = "Strict"


class MatchSpec(StrEnum):
    """Which of two filters an item must pass."""

    BOTH = "Both"
    EITHER = "Either"


class DurabilitySpec(StrEnum):
    """Which servers have stored an item when its enqueue returns."""

    PRIMARY = "Primary"
    REPLICATED = "Replicated"
    FSYNCED = "Fsynced"


class DeletionPolicy(StrEnum):
    """What happens to the items when the ReliableQueue is deleted."""

    RETAIN = "Retain"
    DELETE_IF_EMPTY = "DeleteIfEmpty"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelaySpec:
    """The delay before a failed item is retried."""

    initial: float = duration(
        "Delay before the first retry, as a duration. 0s: all retries are immediate; an item's first crash waits for "
        "nothing.",
        default=_LIBRARY.retry_delay.initial,
        least="0s",
        most="24h",
    )
    factor: float = number(
        "Factor by which each delay is longer than the previous one.",
        default=_LIBRARY.retry_delay.factor,
        least=1,
        most=100,
    )
    max: float = duration(
        "Maximum delay, as a duration.", default=_LIBRARY.retry_delay.max, least="0s", most="168h"
    )
    jitter: float = number(
        "Each delay is shortened by a random share of it, at most this one.",
        default=_LIBRARY.retry_delay.jitter,
        least=0,
        most=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueFailedSpec:
    """When failed items are automatically sent back to main."""

    HINTS: ClassVar[dict[str, str]] = {"after": "the field is called minAge"}

    min_age: float | None = duration(
        "Age at which a failed item is sent back, as a duration.", least="1s", most="8760h", absent="never"
    )
    max_fail_count: int | None = integer(
        "Items that have failed permanently more often than this are not sent back.",
        least=1,
        most=1_000_000,
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFailedSpec:
    """When failed items are automatically removed."""

    HINTS: ClassVar[dict[str, str]] = {"olderThan": "the field is called minAge"}

    min_age: float | None = duration(
        "Time after which a failed item is removed, as a duration.", least="1s", most="87600h", absent="never"
    )
    min_fail_count: int | None = integer(
        "Items that have failed permanently less often than this are kept.",
        least=0,
        most=1_000_000,
        absent="no limit",
    )
    match: MatchSpec = choice(
        "Which items are removed if minAge and minFailCount are both set. Both: items that meet both. Either: items "
        "that meet one of them.",
        MatchSpec.BOTH,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedItemsSpec:
    """Automatic handling of failed items."""

    requeue: RequeueFailedSpec = nested(
        "When failed items are automatically sent back to main.", RequeueFailedSpec, absent="never"
    )
    remove: RemoveFailedSpec = nested(
        "When failed items are automatically removed.", RemoveFailedSpec, absent="never"
    )
    max_items: int | None = integer(
        "Maximum number of failed items; the oldest ones above it are removed.",
        least=1,
        most=100_000_000,
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """One limit on how many items start or are in progress."""

    name: str = text(
        "Name of the limit.", required=True, pattern=f"^{NAME_PATTERN}$", form=NAME_FORM, longest=63
    )
    per: Per = choice(
        "`client` or `key`: the limit holds for each client or key; items without one have none.", Per.QUEUE
    )
    rate: str | None = text(
        "How many items may start in a second (s), minute (m), hour (h) or day (d), such as 100/s. In every window "
        "of w seconds at most burst + rate * w items start, by the server's clock.",
        pattern=f"^{RATE_PATTERN}$",
        form=RATE_FORM,
        longest=9,
        absent="busy",
    )
    burst: int | None = integer(
        "How many items may start at once after a pause, with rate.", least=1, most=HIGHEST, absent="1"
    )
    busy: int | None = integer(
        "How many items may be in progress at once.", least=1, most=HIGHEST, absent="rate"
    )
    unit: Unit = choice("`cost`: the limit counts what the items cost, not how many they are.", Unit.ITEMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """The desired state of one queue."""

    HINTS: ClassVar[dict[str, str]] = {
        "template": "it belongs in spec.worker",
        "paused": "to stop claims and workers set suspend: true",
        "replicas": "the number of workers is in spec.scaling: minReplicas and maxReplicas, or mode: Manual and "
        "replicas",
        "visibilityTimeout": "the field is called busyExpiry",
        "leaseDuration": "the field is called busyExpiry",
        "maxRetries": "the field is called requeueLimit",
        "deadLetter": "the field is called failedItems",
    }

    redis: RedisSpec | None = nested(
        "The Redis or Valkey that holds the items. Optional in local mode, which can start a server.",
        RedisSpec,
        required=True,
        optional=True,
    )
    queue_name: str = text(
        "Name of the queue on the server, which producers use. Without this field: the namespace, a dot and the name "
        "of this object; in local mode without a namespace, only the name. On a cluster, a name that does not begin "
        "with the namespace and a dot must be allowed by a setting of the operator.",
        pattern=QUEUE_NAME,
        form="a queue's name (up to 128 letters, digits, '-', '_' and '.', a letter or digit first and last)",
        longest=128,
        immutable=True,
        absent="namespace.name",
    )
    requeue_limit: int = integer(
        "Maximum number of requeues of an item; the next failure moves it to failed. 0: the first failure does.",
        default=_LIBRARY.requeue_limit,
        least=0,
        most=1_000_000,
    )
    max_postponed: int = integer(
        "How often an item may be postponed (the verdict `later`, and 429 of an app with push delivery); then it moves "
        "to failed.",
        default=_LIBRARY.max_postponed,
        least=0,
        most=1_000_000,
    )
    busy_expiry: float = duration(
        "How long a claim lasts without being renewed, as a duration. If a worker dies together with its sidecar, its "
        "items are delayed by this time.",
        default=_LIBRARY.busy_expiry,
        least="1s",
        most="24h",
    )
    processing_timeout: float | None = duration(
        "How long a worker may work on one item, as a duration. After this time, the claim is no longer renewed and "
        "the app container is restarted.",
        least="1s",
        most="168h",
        absent="no limit",
    )
    on_expiry: ExpiryAction = choice(
        "What happens to an item whose claim has expired. Requeue: it moves to the tail, counted as a crash; above "
        "requeueLimit, it moves to failed. Drop: it is removed. Fail: it moves to failed.",
        ExpiryAction(_LIBRARY.on_expiry.value.capitalize()),
    )
    retry_delay: RetryDelaySpec = nested(
        "The delay before a failed item is retried.", RetryDelaySpec, absent="1s, doubling up to 5m"
    )
    key_order: KeyOrderSpec = choice(
        "Strict: while an item is retried or postponed, later ones of its key wait.", KeyOrderSpec.RELAXED
    )
    failed_items: FailedItemsSpec = nested(
        "Automatic handling of failed items.", FailedItemsSpec, absent="they stay until a user decides"
    )
    max_payload: int = size(
        "The largest payload that can be enqueued, in bytes. An item of 8 MiB blocks the server for up to 80 ms.",
        default=_LIBRARY.max_payload,
        least="1",
        most="64Mi",
    )
    max_waiting: MaxWaitingSpec = nested(
        "A bound on what waits, in main and delayed. New items above it are refused with QueueFull; requeued "
        "and returned items and the follow-ups of done are not.",
        MaxWaitingSpec,
        absent="no limit",
    )
    claim_wait_timeout: float | None = duration(
        "How long a claim waits for an item if it does not specify a time, as a duration. Initially "
        f"{_LIBRARY.claim_wait_timeout:g}s on a new queue.",
        least="0s",
        most="1h",
        absent="a value that a program has set with update_policy is kept",
        unlimited=True,
    )
    id_window: float | None = duration(
        "How long the ids that producers give are remembered, as a duration. Enqueueing an id again within this "
        f"time adds no item. Initially {_LIBRARY.id_window / 3600:g}h on a new queue.",
        least="1s",
        most="168h",
        absent="a value that a program has set with update_policy is kept",
    )
    durability: DurabilitySpec = choice(
        "Where an item is stored when its enqueue returns. Primary: on the primary server. Replicated: also on "
        "durabilityReplicas replicas. Fsynced: on the disks of the primary and of these replicas, all with appendonly; "
        "Redis before 8.2 and Valkey refuse it unless redis.appendfsync declares Always. If the "
        "confirmation does not arrive in time, the producer gets an error that the outcome is unknown.",
        DurabilitySpec.PRIMARY,
    )
    durability_replicas: int = integer(
        "The number of replicas that have to confirm, if durability requires replicas.",
        default=_LIBRARY.durability_replicas,
        least=1,
        most=99,
    )
    durable_done: bool = boolean(
        "Whether done also waits for the durability of the queue, so that no finished item is claimed again after a "
        "failover.",
        default=False,
    )
    fairness: FairnessSpec = nested(
        "How the clients of the queue take turns.", FairnessSpec, absent="equal shares of processing time"
    )
    limits: tuple[LimitSpec, ...] = objects(
        "Limits on how many items start or are in progress; all of them hold. Each has rate or busy.",
        LimitSpec,
        most=MOST_LIMITS,
        absent="no limit",
    )
    worker: WorkerSpec = nested("The app that processes the items.", WorkerSpec, required=True)
    sidecar: SidecarSpec = nested(
        "The container that claimq adds to the worker pods.", SidecarSpec, absent="see the fields below"
    )
    scaling: ScalingSpec = nested("The number of workers.", ScalingSpec, absent="see the fields below")
    suspend: bool = boolean(
        "Whether to stop claims and remove all workers after they have finished their items. Items can still be "
        "enqueued.",
        default=False,
    )
    deletion_policy: DeletionPolicy = choice(
        "What happens to the items when this object is deleted. Retain: they stay on the server. DeleteIfEmpty: "
        "the queue's keys are removed if no item is left. Delete: they are removed with all items.",
        DeletionPolicy.RETAIN,
    )

    def policy_fields(self) -> PolicyFields:
        """The fields of the policy that this manifest sets: ``suspended`` while ``suspend`` is true.

        ``claim_wait_timeout`` and ``id_window`` are among them only if the manifest sets them; otherwise their values
        on the server are kept. Every other field has the manifest's value or its default.
        """
        is_always = self.redis is not None and self.redis.declared_appendfsync == "always"
        values: dict[str, object] = {"appendfsync_always": is_always}
        for name, value in _values(self):
            field = POLICY_FIELDS.get(_POLICY_NAMES.get(name, name))
            if field is not None and (value is not None or field.declared.default is None):
                values[field.name] = _policy_value(value)
        return in_groups(values)


_POLICY_NAMES: Final = {
    "suspend": "suspended",
    "failed_items_max_items": "failed_max_items",
    "failed_items_requeue_min_age": "failed_requeue_min_age",
    "failed_items_requeue_max_fail_count": "failed_requeue_max_given_up_count",
    "failed_items_remove_min_age": "failed_remove_min_age",
    "failed_items_remove_min_fail_count": "failed_remove_min_given_up_count",
    "failed_items_remove_match": "failed_remove_match",
}
"""Fields of the policy with another name than their path in the manifest, by that path. All others have the same."""


def _values(spec: object, path: str = "") -> Iterator[tuple[str, object]]:
    """The values of all fields below an object of the manifest, by their paths: ``retry_delay_initial``."""
    for field in declared_fields(type(spec)):
        value = getattr(spec, field.attribute)
        if is_dataclass(value):
            yield from _values(value, f"{path}{field.attribute}_")
        else:
            yield path + field.attribute, value


def _policy_value(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.lower()
    if isinstance(value, Mapping):
        weights = cast("Mapping[str, str]", value)
        return {client: float(parse_quantity(weight)) for client, weight in weights.items()}
    if isinstance(value, tuple):
        limits = cast("tuple[LimitSpec, ...]", value)
        return tuple(
            Limit(limit.name, limit.rate, limit.burst, limit.busy, limit.per, limit.unit) for limit in limits
        )
    return None if isinstance(value, float) and isinf(value) else value
