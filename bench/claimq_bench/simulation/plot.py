"""Draws simulated runs: the queue and the workers over time, one column of charts for each autoscaler."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# matplotlib's own types are partly unknown.

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from claimq_bench.simulation.simulate import Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
_WIDTH, _HEIGHT = 5.0, 6.0
"""Inches of one column."""


def check_plot(path: Path) -> None:
    """Raises click.UsageError before a long run if the plot could not be written after it."""
    if path.suffix.lower() not in FORMATS:
        raise click.UsageError(f"--plot {path}: the name ends in {' or '.join(FORMATS)}")
    try:
        import matplotlib as mpl  # noqa: F401 # pyright: ignore[reportUnusedImport] # an optional extra
    except ImportError:
        raise click.UsageError("--plot needs matplotlib: run `make setup`") from None


def draw(path: Path, title: str, runs: Mapping[str, list[Moment]]) -> None:
    """Writes the picture. ``runs``: the observations of each autoscaler, by its name. Charts share their axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH * len(runs), _HEIGHT), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(runs), sharex=True, sharey="row", squeeze=False)
    for column, (name, moments) in enumerate(runs.items()):
        _draw_queue(axes[0][column], name, moments)
        _draw_workers(axes[1][column], moments)
    axes[0][0].set_ylabel("items")
    axes[1][0].set_ylabel("workers")
    figure.suptitle(title)
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Writes it without its date, so that the same run gives the same file."""
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
    figure.savefig(path, dpi=110, metadata=metadata)


def _draw_queue(chart: Axes, name: str, moments: list[Moment]) -> None:
    minutes = [one.now / 60 for one in moments]
    chart.plot(minutes, [one.waiting for one in moments], label="waiting", color="tab:red", linewidth=1)
    chart.plot(minutes, [one.busy for one in moments], label="in progress", color="tab:blue", linewidth=1)
    chart.set_title(name)
    chart.legend(loc="upper right")


def _draw_workers(chart: Axes, moments: list[Moment]) -> None:
    minutes = [one.now / 60 for one in moments]
    chart.step(minutes, [one.replicas for one in moments], where="post", label="ordered", color="tab:gray")
    chart.step(minutes, [one.ready for one in moments], where="post", label="ready", color="tab:green")
    chart.set_xlabel("minutes")
    chart.legend(loc="upper right")
