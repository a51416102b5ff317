"""``spec.scaling``: the number of workers."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from claimq_control.manifest.declaring import choice, duration, integer, nested


class ScalingMode(StrEnum):
    """What determines the number of workers."""

    AUTO = "Auto"
    MANUAL = "Manual"
    EXTERNAL = "External"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUpSpec:
    """How fast workers are added."""

    max_step: int | None = integer(
        "Maximum number of workers added in one period.", least=1, most=1000, absent="no limit"
    )
    period: float = duration(
        "The period of maxStep, as a duration.",
        default=10.0,
        least="1s",
        most="1h",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleDownSpec:
    """How fast workers are removed."""

    max_step: int | None = integer(
        "Maximum number of workers removed in one period.", least=1, most=1000, absent="no limit"
    )
    period: float = duration("The period of maxStep, as a duration.", default=10.0, least="1s", most="1h")
    stabilization_window: float | None = duration(
        "Workers are removed only down to the highest number that was desired within this time, as a duration.",
        least="0s",
        most="1h",
        absent="a quarter of the start-up time of workers, at least 6s",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSpec:
    """The number of workers: settings of :func:`claimq_control.scaling.decide`."""

    HINTS: ClassVar[dict[str, str]] = {
        "min": "the field is called minReplicas",
        "max": "the field is called maxReplicas",
        "minReplicaCount": "the field is called minReplicas",
        "maxReplicaCount": "the field is called maxReplicas",
        "cooldownPeriod": "the fields are called idleAfter (to zero) and scaleDown.stabilizationWindow",
        "pollingInterval": "omit it: a first item triggers a decision at once",
    }

    mode: ScalingMode = choice(
        "What determines the number of workers. Auto: the length and age of the queue, with the fields below. Manual: "
        "`replicas`, which `kubectl scale` can set. External: another controller; the number is left unchanged unless "
        "`replicas` is set (by an autoscaler that uses the scale subresource of this queue).",
        ScalingMode.AUTO,
    )
    replicas: int | None = integer(
        "Number of workers in the modes Manual and External. An autoscaler that uses the scale subresource needs an "
        "initial value here; an HPA needs at least 1.",
        least=0,
        most=1000,
        absent="set by the mode",
    )
    min_replicas: int = integer("Minimum number of workers in the mode Auto.", default=0, least=0, most=1000)
    max_replicas: int = integer("Maximum number of workers in the mode Auto.", default=10, least=1, most=1000)
    target_age: float = duration(
        "How long an item may wait before it is started, as a duration. The number of workers is the smallest one that "
        "starts every item within this time.",
        default=30.0,
        least="1s",
        most="168h",
    )
    items_per_replica: int | None = integer(
        "Number of items (waiting or in progress) per worker. The number of workers is at least the number of items "
        "divided by this.",
        least=1,
        most=1_000_000,
        absent="only targetAge determines the number",
    )
    idle_after: float | None = duration(
        "How long the queue must have had no item and no claim before all workers are removed, as a duration. Only if "
        "minReplicas is 0.",
        least="0s",
        most="168h",
        absent="6s; if the next item is likely to arrive soon, 25s or the start-up time of workers",
    )
    scale_up: ScaleUpSpec = nested("How fast workers are added.", ScaleUpSpec, absent="see the fields below")
    scale_down: ScaleDownSpec = nested(
        "How fast workers are removed.", ScaleDownSpec, absent="see the fields below"
    )

    suspended: bool = False
    """Not a field of ``spec.scaling``: the parser copies ``spec.suspend`` to it."""
