"""The curves of a queue, and the plots of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from claimq_cli.output.answers import age
from claimq_cli.web import plot
from claimq_cli.web.rendering import rate
from claimq_cli.web.samples import Sample, per_second, recent

Curves = Mapping[str, Mapping[str, plot.Points]]
"""By the plot (``items``, ``age``, ``rates``, ``workers``) and the name of the curve. All curves of a plot have the
same instants; NaN stands for an unknown value."""
_RATES = {"enqueued": "enqueued_count", "done": "done_count", "failed": "failed_count"}
_LEVELS = {
    "items": {"main": "main", "busy": "busy", "delayed": "delayed"},
    "age": {"age": "oldest_age"},
}
"""Curves whose values are those of a sample, by plot, and the fields of samples."""


def _count(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


_PLOTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "items": ("Items", _count),
    "age": ("Age of the oldest waiting item", age),
    "rates": ("Items per second", rate),
    "workers": ("Workers", _count),
}


def curves_of(samples: Sequence[Sample]) -> Curves:
    """The curves of our own samples; they have no workers."""
    levels = {
        name: {curve: plot.values(samples, field) for curve, field in fields.items()}
        for name, fields in _LEVELS.items()
    }
    return {**levels, "rates": {curve: plot.rates(samples, field) for curve, field in _RATES.items()}}


def latest_rates(samples: Sequence[Sample]) -> dict[str, float]:
    """The rates of the last minute by the name of the curve; empty for fewer than two samples."""
    ends = recent(samples)
    return {curve: per_second(*ends, field) for curve, field in _RATES.items()} if ends else {}


def up_to_now(curves: Curves, samples: Sequence[Sample]) -> Curves:
    """Curves of another source with the latest sample at their ends, and the rates of the last minute."""
    latest = samples[-1]
    levels = {
        name: {curve: float(getattr(latest, field)) for curve, field in fields.items()}
        for name, fields in _LEVELS.items()
    }
    now = {**levels, "rates": latest_rates(samples)}
    return {
        name: {
            curve: _extended(points, latest.at, now.get(name, {}).get(curve)) for curve, points in of.items()
        }
        for name, of in curves.items()
    }


def _extended(points: plot.Points, at: float, value: float | None) -> plot.Points:
    return points if value is None else [*points, (at, value)]


def plots_of(curves: Curves) -> list[plot.Plot]:
    """The plots of curves; none for fewer than two instants."""
    made = (
        plot.plot_of(title, [*curves.get(name, {}).items()], shown) for name, (title, shown) in _PLOTS.items()
    )
    return [one for one in made if one is not None]
