"""Fields of ``spec`` on the items that wait: how many may, and how their clients take turns."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from claimq.waiting.fairness import MOST_RESERVE, Fairness
from claimq_control.manifest.declaring import choice, integer, nested, number, quantity_map, size


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBoundSpec:
    """A bound on what waits of each client."""

    items: int | None = integer(
        "Maximum number of waiting items of a client. Items without a client count only in the whole queue.",
        least=1,
        most=1_000_000_000,
        absent="no limit",
    )
    bytes: int | None = size(
        "Maximum size of a client's waiting items, in bytes.", least="1", most="1048576Gi", absent="no limit"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxWaitingSpec:
    """A bound on what waits."""

    items: int | None = integer(
        "Maximum number of waiting items.", least=1, most=1_000_000_000, absent="no limit"
    )
    bytes: int | None = size(
        "Maximum size of the waiting items with their headers, in bytes.",
        least="1",
        most="1048576Gi",
        absent="no limit",
    )
    per_client: ClientBoundSpec = nested("The same for each client.", ClientBoundSpec, absent="no limit")


class TurnsSpec(StrEnum):
    """By what the clients of a queue take turns."""

    TIME = "Time"
    COUNT = "Count"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairnessSpec:
    """How the clients of the queue take turns."""

    by: TurnsSpec = choice(
        "Time: clients get equal shares of processing time. Count: they get an item each in turn.",
        TurnsSpec.TIME,
    )
    weights: Mapping[str, str] = quantity_map(
        "Weight of each client's share, used by time only; from 0.01 to 100.", absent="1"
    )
    reserve: float = number(
        "Share of the slots that is kept free for clients that use little, while one had work in the last ten minutes; "
        "used by time only. 0 keeps none.",
        default=Fairness().reserve,
        least=0,
        most=MOST_RESERVE,
    )
