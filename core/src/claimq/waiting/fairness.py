"""How the clients of a queue take turns: by processing time or by count, and with which weights. Pure.

The scripts read the weights in the ``config`` hash, a line for each client. People write and read ``ann=3,bob=0.5``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, cast

from claimq.arguments import Checked, Choice, Number, number, of_type, text

MOST_WEIGHTS: Final = 1000
LEAST_WEIGHT: Final = 0.01
HIGHEST_WEIGHT: Final = 100
MOST_RESERVE: Final = 0.5


class Weights(dict[str, float]):
    """Weights by client. It is never changed, so it is a part of records that are not."""

    def __hash__(self) -> int:  # type: ignore[override]  # dict has none
        return hash(frozenset(self.items()))


class Turns(StrEnum):
    """By what the clients of a queue take turns."""

    TIME = "time"
    COUNT = "count"


def check_weights(name: str, argument: object) -> Weights:
    """Weights by client. Raises ValueError or TypeError that names the argument."""
    weights = cast("Mapping[object, object]", of_type(name, argument, Mapping, "weights by client"))
    if len(weights) > MOST_WEIGHTS:
        raise ValueError(f"{name} has {len(weights):,} clients; give at most {MOST_WEIGHTS:,}")
    return Weights(
        (
            _client(name, client),
            number(f"{name} of {client}", weight, least=LEAST_WEIGHT, most=HIGHEST_WEIGHT),
        )
        for client, weight in weights.items()
    )


def _client(name: str, client: object) -> str:
    client = text(name, client)
    if not re.fullmatch("[!-~]{1,128}", client, re.ASCII) or client == "-":
        raise ValueError(f"{name} has {client[:40]!r}, which is no name of a client; give other weights")
    return client


class WeightsField(Checked[Weights, Mapping[str, float]]):
    """Weights of clients as a field of a policy."""

    def __init__(self) -> None:
        super().__init__(Weights(), check_weights)


@dataclass(frozen=True)
class Fairness:
    """How the clients of a queue take turns.

    ``by``: ``TIME``, equal shares of processing time, or ``COUNT``, one item each in turn. ``weights``: the share of a
    client, 1 unless given, by time only. Items without a client take turns as one client of weight 1. ``reserve``: the
    share of the slots that is kept free for clients that use little while one had work in the last ten minutes, by time
    only, from 0 (none) to 0.5.
    """

    WITHIN: ClassVar[str] = "fairness."

    by: Choice[Turns] = Choice(Turns.TIME)
    weights: WeightsField = WeightsField()
    reserve: Number = Number(0.1, least=0, most=MOST_RESERVE)


def stored_weights(weights: Weights) -> str:
    """As the ``config`` hash has them."""
    return "".join(f"{client} {weight:g}\n" for client, weight in weights.items())


def load_weights(stored: str) -> Weights:
    """Those of the ``config`` hash. Raises ValueError for what no release writes."""
    rows = [line.partition(" ") for line in stored.splitlines()]
    return check_weights("fairness_weights", {client: _number(weight) for client, _, weight in rows})


def shown_weights(weights: Weights) -> str:
    """As people write them."""
    return ",".join(f"{client}={weight:g}" for client, weight in weights.items())


def read_weights(written: str) -> Weights:
    """The weights that a person wrote. Raises ValueError."""
    weights = dict[str, float]()
    for pair in filter(None, written.split(",")):
        client, equals, weight = pair.rpartition("=")
        if not equals or client in weights:
            raise ValueError(f"{pair!r} is no weight of another client; write ann=3,bob=0.5")
        weights[client] = _number(weight)
    return check_weights("fairness_weights", weights)


def _number(digits: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise ValueError(f"fairness_weights has {digits[:40]!r}; write a number") from None
