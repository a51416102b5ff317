"""Traces: the arrivals and service times of a simulated run.

Shapes and parameters follow published properties of queue-triggered serverless functions (short items
dominate, rates span orders of magnitude, arrivals come in bursts); every generator takes a seed and is
reproducible.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

HOUR = 3600.0


@dataclass(frozen=True)
class Trace:
    """Items by the second at which they are enqueued (ascending), and how long each takes, in seconds."""

    name: str
    arrivals: tuple[float, ...]
    services: tuple[float, ...]
    seconds: float

    @property
    def work(self) -> float:
        """Seconds of work in all items: the least possible pod-seconds of workers that take one item at a
        time."""
        return sum(self.services)

    @cached_property
    def ticks(self) -> tuple[list[int], list[int]]:
        """Arrivals and service times in milliseconds; an item takes at least one."""
        return [round(at * 1000) for at in self.arrivals], [
            max(1, round(took * 1000)) for took in self.services
        ]


Rate = Callable[[float], float]
"""Items per second at an instant of the run."""


def make_trace(
    shape: str, seed: int, *, seconds: float = 2 * HOUR, service: Service | None = None, scale: float = 1.0
) -> Trace:
    """A trace of one of :data:`SHAPES`. ``scale`` multiplies the arrival rate."""
    rng = random.Random(f"{shape}/{seed}")
    arrivals = sorted(SHAPES[shape](rng, seconds, scale))
    draw = (service or Service()).drawer(rng, seconds)
    return Trace(shape, tuple(arrivals), tuple(draw(at) for at in arrivals), seconds)


@dataclass(frozen=True, slots=True)
class Service:
    """How long items take: log-normal with a mean and a coefficient of variation.

    ``drift``: from half of the run on, items take this many times as long.
    """

    mean: float = 2.0
    variation: float = 1.0
    drift: float = 1.0

    def drawer(self, rng: random.Random, seconds: float) -> Callable[[float], float]:
        """A function from the instant of arrival to a service time, in seconds."""
        sigma = math.sqrt(math.log(1 + self.variation**2))
        mu = math.log(self.mean) - sigma**2 / 2

        def draw(at: float) -> float:
            factor = self.drift if at >= seconds / 2 else 1.0
            return rng.lognormvariate(mu, sigma) * factor

        return draw


# Shapes ------------------------------------------------------------------------------------------------------------


def _poisson(rng: random.Random, seconds: float, rate: Rate, most: float) -> Iterator[float]:
    """Poisson arrivals with a rate that changes over time, by thinning; ``most`` bounds the rate."""
    at = rng.expovariate(most)
    while at < seconds:
        if rng.random() * most < rate(at):
            yield at
        at += rng.expovariate(most)


def _steady(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    return _poisson(rng, seconds, lambda _: 5 * scale, 5 * scale)


def _diurnal(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    def rate(at: float) -> float:
        return scale * (5.3 - 3.3 * math.cos(2 * math.pi * at / seconds))

    return _poisson(rng, seconds, rate, 8.6 * scale)


def _flash_crowd(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    starts = [seconds * (0.25 + 0.1 * rng.random()), seconds * (0.65 + 0.1 * rng.random())]

    def rate(at: float) -> float:
        return scale * (1 + sum(25 * math.exp(-(at - start) / 120) for start in starts if at >= start))

    return _poisson(rng, seconds, rate, 53 * scale)


def _batch(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    at = rng.uniform(60, 300)
    while at < seconds - 120:
        for _ in range(round(600 * scale)):
            yield at + rng.uniform(0, 5)
        at += 1200


def _on_off(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    at, is_on, switches = 0.0, False, [0.0]
    while at < seconds:
        at += rng.expovariate(1 / (60 if is_on else 180))
        switches.append(at)
        is_on = not is_on

    def rate(at: float) -> float:
        return scale * (12.0 if bisect_right(switches, at) % 2 == 0 else 0.3)

    return _poisson(rng, seconds, rate, 12 * scale)


def _sparse(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    return _poisson(rng, seconds, lambda _: scale / 180, scale / 180)


def _ramp(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    return _poisson(rng, seconds, lambda at: scale * (0.5 + 14 * at / seconds), 14.5 * scale)


def _heavy_tailed(rng: random.Random, seconds: float, scale: float) -> Iterator[float]:
    """The logarithm of each minute's rate is a first-order autoregression with heavy-tailed innovations."""
    minutes, level = round(seconds / 60) + 1, 0.0
    rates: list[float] = []
    for _ in range(minutes):
        shock = rng.gauss(0, 0.35) * (1 if rng.random() < 0.9 else 3)
        level = 0.85 * level + shock
        rates.append(min(2.2 * math.exp(level), 40.0))
    return _poisson(rng, seconds, lambda at: scale * rates[int(at / 60)], 40 * scale)


SHAPES: dict[str, Callable[[random.Random, float, float], Iterator[float]]] = {
    "steady": _steady,
    "diurnal": _diurnal,
    "flash-crowd": _flash_crowd,
    "batch": _batch,
    "on-off": _on_off,
    "sparse": _sparse,
    "ramp": _ramp,
    "heavy-tailed": _heavy_tailed,
}
"""Name of a shape -> arrivals."""
