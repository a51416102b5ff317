"""``spec`` of a ReliableQueue."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isinf
from typing import ClassVar

from claimq.policy import Durability, FailedPolicy, Match, OnExpiry, Policy, RetryDelay
from claimq.policy_changes import PolicyFields
from claimq_spec.manifest.declaring import boolean, choice, duration, integer, nested, number, size, text
from claimq_spec.manifest.redis_spec import RedisSpec
from claimq_spec.manifest.scaling_spec import ScalingSpec
from claimq_spec.manifest.worker_spec import SidecarSpec, WorkerSpec

_LIBRARY = Policy()

QUEUE_NAME = "^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?$"


class ExpiryAction(StrEnum):
    """What becomes of an item whose lease ran out."""

    REQUEUE = "Requeue"
    DROP = "Drop"
    FAIL = "Fail"


class MatchSpec(StrEnum):
    """Which of two filters an item must pass."""

    BOTH = "Both"
    EITHER = "Either"


class DurabilitySpec(StrEnum):
    """What has an item when its enqueue returns."""

    PRIMARY = "Primary"
    REPLICATED = "Replicated"
    FSYNCED = "Fsynced"


class DeletionPolicy(StrEnum):
    """What becomes of the items when the ReliableQueue is deleted."""

    RETAIN = "Retain"
    DELETE_IF_EMPTY = "DeleteIfEmpty"
    DELETE = "Delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelaySpec:
    """The pause before a failed item's next attempt."""

    initial: float = duration(
        "Pause before the first retry, as a duration. 0s: none before any retry.",
        default=_LIBRARY.retry_delay.initial,
        least="0s",
        most="24h",
    )
    factor: float = number(
        "Each further pause is so many times the one before.",
        default=_LIBRARY.retry_delay.factor,
        least=1,
        most=100,
    )
    max: float = duration(
        "The longest pause, as a duration.", default=_LIBRARY.retry_delay.max, least="0s", most="168h"
    )
    jitter: float = number(
        "Up to this share of a pause is taken away at random.",
        default=_LIBRARY.retry_delay.jitter,
        least=0,
        most=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeueFailedSpec:
    """When failed items are sent back to main by themselves."""

    HINTS: ClassVar[dict[str, str]] = {"after": "the field is called minAge"}

    min_age: float | None = duration(
        "Time after which a failed item is sent back, as a duration.",
        least="1s",
        most="8760h",
        absent="never",
    )
    max_fail_count: int | None = integer(
        "Items that were given up more often than this in their life stay failed.",
        least=1,
        most=1_000_000,
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFailedSpec:
    """When failed items are removed by themselves."""

    HINTS: ClassVar[dict[str, str]] = {"olderThan": "the field is called minAge"}

    min_age: float | None = duration(
        "Time after which a failed item is removed, as a duration.", least="1s", most="87600h", absent="never"
    )
    min_fail_count: int | None = integer(
        "Items that were given up less often than this in their life are kept.",
        least=0,
        most=1_000_000,
        absent="no limit",
    )
    match: MatchSpec = choice(
        "Which items go where minAge and minFailCount are both given. Both: those that are old enough and failed "
        "often enough. Either: one of the two is enough.",
        MatchSpec.BOTH,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedItemsSpec:
    """What happens to failed items by themselves."""

    requeue: RequeueFailedSpec = nested(
        "When failed items are sent back to main by themselves.", RequeueFailedSpec, absent="never"
    )
    remove: RemoveFailedSpec = nested(
        "When failed items are removed by themselves.", RemoveFailedSpec, absent="never"
    )
    max_items: int | None = integer(
        "Failed items kept at most; beyond that the oldest are removed.",
        least=1,
        most=100_000_000,
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """What a person wants of one queue."""

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
        "The Redis or Valkey that holds the items. Optional in local mode, which brings a server of its own.",
        RedisSpec,
        required=True,
        optional=True,
    )
    queue_name: str = text(
        "Name of the queue on the server, which producers use. Without it: the namespace, a dot and the name of this "
        "object; in local mode without a namespace the name alone. On a cluster a name that does not begin with the "
        "namespace and a dot needs a setting of the operator.",
        pattern=QUEUE_NAME,
        form="a queue's name (up to 128 letters, digits, '-', '_' and '.', a letter or digit first and last)",
        longest=128,
        immutable=True,
        absent="namespace.name",
    )
    requeue_limit: int = integer(
        "Requeues an item may have; the failure after the last goes to failed. 0: the first failure does.",
        default=_LIBRARY.requeue_limit,
        least=0,
        most=1_000_000,
    )
    busy_expiry: float = duration(
        "How long a claim holds without being renewed, as a duration. A worker that dies with its sidecar delays "
        "its items by so much.",
        default=_LIBRARY.busy_expiry,
        least="1s",
        most="24h",
    )
    processing_timeout: float | None = duration(
        "How long a worker may take for one item, as a duration. Beyond that its claim is no longer renewed and "
        "the app container is restarted.",
        least="1s",
        most="168h",
        absent="as long as it lives",
    )
    on_expiry: ExpiryAction = choice(
        "What becomes of an item whose claim ran out. Requeue: back to the tail, counted as a crash, to failed beyond "
        "requeueLimit. Drop: it is removed. Fail: to failed.",
        ExpiryAction(_LIBRARY.on_expiry.value.capitalize()),
    )
    retry_delay: RetryDelaySpec = nested(
        "The pause before a failed item's next attempt.", RetryDelaySpec, absent="no pause"
    )
    failed_items: FailedItemsSpec = nested(
        "What happens to failed items by themselves.",
        FailedItemsSpec,
        absent="they stay until a user decides",
    )
    max_payload: int = size(
        "The largest payload that can be enqueued, in bytes.",
        default=_LIBRARY.max_payload,
        least="1",
        most="64Mi",
    )
    claim_wait_timeout: float | None = duration(
        "How long a claim waits for an item if it does not specify a time, as a duration. A queue on which nothing has "
        f"set it waits {_LIBRARY.claim_wait_timeout:g}s.",
        least="0s",
        most="1h",
        absent="what a program has set with update_policy stays as it is",
        unlimited=True,
    )
    id_window: float | None = duration(
        "How long an id that a producer gave is remembered, as a duration: enqueueing it again within this time adds "
        f"nothing. A queue on which nothing has set it remembers {_LIBRARY.id_window / 3600:g}h.",
        least="1s",
        most="168h",
        absent="what a program has set with update_policy stays as it is",
    )
    durability: DurabilitySpec = choice(
        "What has an item when its enqueue returns. Primary: the primary server. Replicated: at least one replica too. "
        "Fsynced: the disk of the primary and of a replica, both with appendonly. What is not confirmed in time is "
        "reported to the producer as not known.",
        DurabilitySpec.PRIMARY,
    )
    durable_done: bool = boolean(
        "true makes the end of an item wait for the same, so that a failover hands out no finished item again.",
        default=False,
    )
    worker: WorkerSpec = nested("The app that works on the items.", WorkerSpec, required=True)
    sidecar: SidecarSpec = nested(
        "The container that claimq puts beside the app.", SidecarSpec, absent="see the fields below"
    )
    scaling: ScalingSpec = nested("How many workers there are.", ScalingSpec, absent="see the fields below")
    suspend: bool = boolean(
        "true stops claims and takes all workers away, after they have finished what they hold. Items can still be "
        "enqueued.",
        default=False,
    )
    deletion_policy: DeletionPolicy = choice(
        "What becomes of the items when this object is deleted. Retain: they stay on the server. DeleteIfEmpty: "
        "the queue's keys are removed if no item is left. Delete: they are removed with all items.",
        DeletionPolicy.RETAIN,
    )

    def policy_fields(self) -> PolicyFields:
        """The fields of the policy that this manifest sets: ``suspended`` while ``suspend`` is true.

        ``claim_wait_timeout`` and ``id_window`` are among them only where the manifest gives them: what else has set
        them on the server stays. Every other field has its value here, given or default.
        """
        retry, failed = self.retry_delay, self.failed_items
        fields = PolicyFields(
            requeue_limit=self.requeue_limit,
            busy_expiry=self.busy_expiry,
            on_expiry=OnExpiry(self.on_expiry.value.lower()),
            retry_delay=RetryDelay(
                initial=retry.initial, factor=retry.factor, max=retry.max, jitter=retry.jitter
            ),
            max_payload=self.max_payload,
            failed=FailedPolicy(
                requeue_min_age=failed.requeue.min_age,
                requeue_max_given_up_count=failed.requeue.max_fail_count,
                remove_min_age=failed.remove.min_age,
                remove_min_given_up_count=failed.remove.min_fail_count,
                max_items=failed.max_items,
                remove_match=Match(failed.remove.match.value.lower()),
            ),
            durability=Durability(self.durability.value.lower()),
            durable_done=self.durable_done,
            suspended=self.suspend,
        )
        if self.claim_wait_timeout is not None:
            fields["claim_wait_timeout"] = None if isinf(self.claim_wait_timeout) else self.claim_wait_timeout
        if self.id_window is not None:
            fields["id_window"] = self.id_window
        return fields
