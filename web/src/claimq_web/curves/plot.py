"""Curves of a queue's samples as SVG: coordinates and labels for the templates. Pure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from claimq_web.curves.samples import Sample, per_second

WIDTH, HEIGHT = 640.0, 160.0
_MOST_POINTS = 240
_MOST_STRETCHES = 60
_HALF_A_DAY = 12 * 3600.0
Points = Sequence[tuple[float, float]]
"""Instants with values."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve: its name, the number of its colour, and the path in the plot's coordinates."""

    label: str
    colour: int
    path: str
    now: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the time of a plot: where it is in the plot's coordinates, its begin and the highest values in it."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: curves, the values at its top, middle and bottom and the times at its ends as text, what to show at a
    pointer, and a sentence instead of the picture."""

    title: str
    curves: tuple[Curve, ...]
    stretches: tuple[Stretch, ...]
    axis: tuple[str, str, str]
    begin: str
    end: str
    summary: str


def plot_of(
    title: str, curves: Sequence[tuple[str, Points]], number_text: Callable[[float], str]
) -> Plot | None:
    """A plot of curves over the same time. ``number_text``: a value as text. None for fewer than two points."""
    thinned = [(label, _thinned(points)) for label, points in curves]
    if any(len(points) < 2 for _, points in thinned):
        return None
    begin, end = thinned[0][1][0][0], thinned[0][1][-1][0]
    top = max(value for _, points in thinned for _, value in points)
    written = _clock if end - begin < _HALF_A_DAY else _day_and_clock
    drawn = tuple(
        Curve(label, number, path_of(points, top, WIDTH, HEIGHT), number_text(_height(points[-1])))
        for number, (label, points) in enumerate(thinned, 1)
    )
    words = "; ".join(f"{curve.label} now {curve.now}" for curve in drawn)
    return Plot(
        title,
        drawn,
        tuple(_stretches(curves, number_text, written)),
        (number_text(top), number_text(top / 2), number_text(0.0)) if top else ("", "", number_text(0.0)),
        written(begin),
        written(end),
        f"{title} from {written(begin)} to {written(end)}: {words}; highest {number_text(top)}",
    )


def _stretches(
    curves: Sequence[tuple[str, Points]], number_text: Callable[[float], str], written: Callable[[float], str]
) -> Iterator[Stretch]:
    instants = [at for at, _ in curves[0][1]]
    begin, size = instants[0], -(-len(instants) // _MOST_STRETCHES)
    starts = range(0, len(instants), size)
    inner = [(instants[n - 1] + instants[n]) / 2 for n in starts[1:]]
    across = WIDTH / ((instants[-1] - begin) or 1.0)
    for n, (left, right) in zip(starts, pairwise([begin, *inner, instants[-1]]), strict=True):
        highest = [
            (label, number_text(_height(max(points[n : n + size], key=_height)))) for label, points in curves
        ]
        values = ", ".join(f"{label} {value}" for label, value in highest)
        yield Stretch((left - begin) * across, (right - left) * across, f"{written(instants[n])}: {values}")


def path_of(points: Points, top: float, width: float, height: float) -> str:
    """The path of a curve in a box, from 0 at the bottom to ``top``."""
    begin, end = points[0][0], points[-1][0]
    across, up = width / ((end - begin) or 1.0), height / (top or 1.0)
    places = (f"{(at - begin) * across:.1f} {height - value * up:.1f}" for at, value in points)
    return "M" + "L".join(places)


def spark_path(samples: Sequence[Sample], width: float, height: float) -> str:
    """A small curve of the length of main without labels; empty for fewer than two samples."""
    points = _thinned([(sample.at, sample.main) for sample in samples], 60)
    if len(points) < 2:
        return ""
    return path_of(points, max(value for _, value in points), width, height)


def values(samples: Sequence[Sample], field: str) -> Points:
    """The points of a field."""
    return [(sample.at, float(getattr(sample, field))) for sample in samples]


def rates(samples: Sequence[Sample], counter: str) -> Points:
    """How fast a total grew, from each sample to the next."""
    return [(later.at, per_second(earlier, later, counter)) for earlier, later in pairwise(samples)]


def _thinned(points: Points, most: int = _MOST_POINTS) -> Points:
    """At most about ``most`` points: the highest of each stretch, so that no peak is lost, and the last one."""
    if len(points) <= most:
        return points
    size = -(-len(points) // most)
    peaks = [max(points[n : n + size], key=_height) for n in range(0, len(points), size)]
    return [*peaks[:-1], points[-1]]


def _height(point: tuple[float, float]) -> float:
    return point[1]


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def _day_and_clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
