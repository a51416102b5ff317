"""The curves of a queue, and the plots of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from claimq_admin.text import age
from claimq_web.curves import plot
from claimq_web.curves.samples import Sample, per_second, recent
from claimq_web.rendering import rate

Curves = Mapping[str, Mapping[str, plot.Points]]
"""By the plot (``items``, ``age``, ``rates``) and the name of the curve; those of a plot have the same instants."""
_RATES = {"enqueued": "enqueued_count", "done": "done_count", "failed": "failed_count"}
_LEVELS = {
    "items": {"main": "main", "busy": "busy", "delayed": "delayed"},
    "age": {"age": "oldest_age"},
}
"""Curves whose values are those of a sample, by plot, and the fields of samples."""


def _count(number: float) -> str:
    return f"{number:,.1f}".removesuffix(".0")


_PLOTS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "items": ("Items", _count),
    "age": ("Age of the oldest waiting item", age),
    "rates": ("Items per second", rate),
}


def curves_of(samples: Sequence[Sample]) -> Curves:
    """The curves of samples."""
    levels = {
        name: {curve: plot.values(samples, field) for curve, field in fields.items()}
        for name, fields in _LEVELS.items()
    }
    return {**levels, "rates": {curve: plot.rates(samples, field) for curve, field in _RATES.items()}}


def latest_rates(samples: Sequence[Sample]) -> dict[str, float]:
    """The rates of the last minute by the name of the curve; empty for fewer than two samples."""
    ends = recent(samples)
    return {curve: per_second(*ends, field) for curve, field in _RATES.items()} if ends else {}


def plots_of(curves: Curves) -> list[plot.Plot]:
    """The plots of curves; none for fewer than two instants."""
    plots = (
        plot.plot_of(title, [*curves[name].items()], number_text)
        for name, (title, number_text) in _PLOTS.items()
    )
    return [plot_or_none for plot_or_none in plots if plot_or_none is not None]
