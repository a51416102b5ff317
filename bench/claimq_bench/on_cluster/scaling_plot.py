"""Draws the runs on a cluster: for each trace the waiting items and the ready workers of all scalers in one chart."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# matplotlib's own types are partly unknown.

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from claimq_bench.on_cluster.scaling import SCALERS, Run
from claimq_bench.simulation.plot import save

_COLORS: dict[str, str] = dict(zip(SCALERS, ("tab:green", "tab:red", "tab:blue"), strict=True))


def draw(path: Path, runs: Sequence[Run]) -> None:
    """A column for each trace. Solid: measured; dotted: what the simulator says for the same trace."""
    traces = list(dict.fromkeys(run.trace for run in runs))
    figure = Figure(figsize=(6.0 * len(traces), 7.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, len(traces), sharex="col", squeeze=False)
    for column, trace in enumerate(traces):
        for run in runs:
            if run.trace == trace:
                _draw(axes[0][column], axes[1][column], run)
        axes[0][column].set_title(trace)
        axes[1][column].set_xlabel("minutes")
    axes[0][0].set_ylabel("waiting items")
    axes[1][0].set_ylabel("ready workers")
    axes[0][0].legend(loc="upper right")
    save(figure, path)


def _draw(queue: Axes, workers: Axes, run: Run) -> None:
    for moments, style, label in ((run.moments, "-", run.scaler), (run.predicted_moments, ":", None)):
        minutes = [one.now / 60 for one in moments]
        look: dict[str, Any] = {
            "linestyle": style,
            "color": _COLORS[run.scaler],
            "linewidth": 1,
            "label": label,
        }
        queue.plot(minutes, [one.waiting for one in moments], **look)
        workers.step(minutes, [one.ready for one in moments], where="post", **look)
