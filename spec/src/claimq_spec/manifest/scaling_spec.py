"""``spec.scaling``: the number of workers."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from claimq_spec.manifest.declaring import choice, duration, integer, nested


class ScalingMode(StrEnum):
    """Who says how many workers there are."""

    AUTO = "Auto"
    MANUAL = "Manual"
    EXTERNAL = "External"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpSpec:
    """How fast workers are added."""

    max_step: int | None = integer(
        "Workers added at most in one period.", least=1, most=1000, absent="as many as are needed, at once"
    )
    period: float = duration(
        "The period that maxStep counts in, as a duration.",
        default=10.0,
        least="1s",
        most="1h",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownSpec:
    """How fast workers are taken away."""

    max_step: int | None = integer(
        "Workers taken away at most in one period.", least=1, most=1000, absent="no limit"
    )
    period: float = duration(
        "The period that maxStep counts in, as a duration.", default=10.0, least="1s", most="1h"
    )
    stabilization_window: float | None = duration(
        "Workers are taken away only down to the highest number that was wanted in this time, as a duration.",
        least="0s",
        most="1h",
        absent="a quarter of the time that workers take to start, at least 6s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """How many workers there are; what :func:`claimq_spec.scaling.decide` goes by."""

    HINTS: ClassVar[dict[str, str]] = {
        "min": "the field is called minReplicas",
        "max": "the field is called maxReplicas",
        "minReplicaCount": "the field is called minReplicas",
        "maxReplicaCount": "the field is called maxReplicas",
        "cooldownPeriod": "the fields are called idleAfter (to zero) and scaleDown.stabilizationWindow",
        "pollingInterval": "leave it out: a first item wakes the scaling at once",
    }

    mode: ScalingMode = choice(
        "Who says how many workers there are. Auto: the queue's length and age, by the fields below. Manual: "
        "`replicas`, also through `kubectl scale`. External: another controller; the number of workers is left "
        "alone unless `replicas` is set (by an autoscaler that works on this queue's scale).",
        ScalingMode.AUTO,
    )
    replicas: int | None = integer(
        "Workers, in the modes Manual and External. An autoscaler that works on this queue's scale finds none before "
        "there is a first number here; an HPA begins at 1.",
        least=0,
        most=1000,
        absent="the other fields say",
    )
    min_replicas: int = integer("Workers at least, in the mode Auto.", default=0, least=0, most=1000)
    max_replicas: int = integer("Workers at most, in the mode Auto.", default=10, least=1, most=1000)
    target_age: float = duration(
        "How long an item may wait until it is started, as a duration. There are as few workers as start every item "
        "within this time.",
        default=30.0,
        least="1s",
        most="168h",
    )
    items_per_replica: int | None = integer(
        "Items (waiting or in progress) for one worker. There are at least as many workers as this asks for.",
        least=1,
        most=1_000_000,
        absent="only targetAge counts",
    )
    idle_after: float | None = duration(
        "When there has been no item and no claim for so long, as a duration, all workers go, if minReplicas is 0.",
        least="0s",
        most="168h",
        absent="6s; 15s or as long as workers take to start, if the next item is likely to come in that time",
    )
    scale_up: ScaleUpSpec = nested("How fast workers are added.", ScaleUpSpec, absent="see the fields below")
    scale_down: ScaleDownSpec = nested(
        "How fast workers are taken away.", ScaleDownSpec, absent="see the fields below"
    )

    suspended: bool = False
    """Not of the manifest's ``scaling``: the parser puts ``spec.suspend`` here."""
