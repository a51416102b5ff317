"""What `make bench-cluster` writes: the names that others compare by, and what QUICK=1 and JSON=FILE do."""

import json
import math
from pathlib import Path

import pytest

from claimq_bench.figures import Figure, Report
from claimq_bench.on_cluster import deaths, reaction
from claimq_bench.on_cluster.crowd import Rest
from claimq_bench.on_cluster.operator_process import Look
from claimq_bench.on_cluster.program import FULL, PARTS, QUICK, SCALING, Plan, asked
from claimq_bench.on_cluster.reporting import report_deaths, report_reaction, report_rest, report_wake
from testkit.programs.make import command_of
from testkit.programs.metrics_page import MetricsPage
from testkit.repository.tree import ROOT

ASKED_FOR = {
    "enqueue_to_scale_p50_s": 0.2,
    "enqueue_to_claim_p50_s": 2.0,
    "app_kill_to_reclaim_p50_s": 0.02,
    "pod_kill_to_reclaim_p50_s": 0.9,
    "operator_rss_mb_100_queues": 70.0,
    "operator_rss_mb_1000_queues": 110.0,
    "pass_lag_1000_queues_s": 0.95,
    "pass_lag_1000_queues_p99_s": 0.99,
    "api_requests_per_minute_idle_100_queues": 30.0,
}
"""Each with its value in what is measured below."""
RSS = {1: 60.0, 100: 70.0, 1000: 110.0}
BEFORE = """claimq_kubernetes_requests_total{verb="list"} 10
claimq_passes_total{outcome="ok"} 10
claimq_pass_lag_seconds_bucket{le="0.1"} 0
claimq_pass_lag_seconds_bucket{le="1.0"} 0
claimq_pass_lag_seconds_bucket{le="+Inf"} 0
claimq_pass_lag_seconds_sum 0
claimq_pass_duration_seconds_bucket{le="1.0"} 0
claimq_pass_duration_seconds_bucket{le="+Inf"} 0
claimq_pass_duration_seconds_sum 0
"""
AFTER = """claimq_kubernetes_requests_total{verb="list"} 20
claimq_passes_total{outcome="ok"} 110
claimq_pass_lag_seconds_bucket{le="0.1"} 10
claimq_pass_lag_seconds_bucket{le="1.0"} 100
claimq_pass_lag_seconds_bucket{le="+Inf"} 100
claimq_pass_lag_seconds_sum 50
claimq_pass_duration_seconds_bucket{le="1.0"} 100
claimq_pass_duration_seconds_bucket{le="+Inf"} 100
claimq_pass_duration_seconds_sum 10
"""


def report() -> Report:
    return Report(write=lambda _: None)


def rest(queues: int) -> Rest:
    looks = (
        Look(0.0, 0.0, RSS[queues], 1.0, MetricsPage(BEFORE)),
        Look(20.0, 20.0, RSS[queues], 2.0, MetricsPage(AFTER)),
    )
    return Rest(queues, 1.5, looks, audited=15)


def figures_of(plan: Plan) -> dict[str, object]:
    """All figures of a run with that plan, as they come into the file."""
    made = report()
    report_reaction(made, reaction.Found([0.1, 0.2, 0.9], [1.0, 2.0, 3.0], [1.1]))
    took = {"app": [0.01, 0.02, 0.1], "sidecar": [0.5], "pod": [0.8, 0.9, 1.1]}
    report_deaths(made, deaths.Found({kind: took[kind] for kind in deaths.KINDS}, [0.3], 30.2, [43.5]))
    for queues, _ in plan.windows:
        report_rest(made, rest(queues))
    report_wake(made, plan.windows[-1][0], [0.3, 0.4])
    figures: dict[str, object] = json.loads(made.as_json())
    return figures


@pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])
def test_the_file_has_each_figure_that_runs_are_compared_by(plan: Plan) -> None:
    figures = figures_of(plan)
    assert {name: figures.get(name) for name in ASKED_FOR} == ASKED_FOR
    assert (figures["enqueue_to_scale_p50_s_min"], figures["enqueue_to_scale_p50_s_max"]) == (0.1, 0.9)


def test_each_figure_is_a_name_and_a_number() -> None:
    assert {name: value for name, value in figures_of(FULL).items() if not isinstance(value, float)} == {}


def test_each_figure_is_explained_in_the_docs() -> None:
    text = (ROOT / "bench" / "README.md").read_text()
    assert [name for name in ASKED_FOR if _explained(name) not in text] == []


def _explained(name: str) -> str:
    """Figures of several numbers of queues have one row together."""
    row, several, _ = name.partition("100_queues" if "100_queues" in name else "1000_queues")
    return f"`{row.removesuffix('_')}_" if several else f"`{name}`"


def test_quick_measures_less_of_the_same() -> None:
    assert [queues for queues, _ in QUICK.windows] == [queues for queues, _ in FULL.windows]
    assert all(quick < full for (_, quick), (_, full) in zip(QUICK.windows, FULL.windows, strict=True))
    for name in ("reactions", "kills", "deletions", "wakes", "trace"):
        assert 0 < getattr(QUICK, name) < getattr(FULL, name)


def test_without_words_everything_is_measured_in_full_and_nothing_is_written() -> None:
    chosen = asked([])
    assert (chosen.plan, tuple(chosen.parts), chosen.json) == (FULL, PARTS, None)


@pytest.mark.parametrize("target", ["bench-cluster", "bench"])
def test_make_hands_on_json_and_quick(target: str, tmp_path: Path) -> None:
    file = tmp_path / "the figures.json"
    with_both = command_of(target, f"JSON={file}", "QUICK=1")
    assert with_both[-3:] == ["--json", str(file), "--quick"]
    assert command_of(target) == with_both[:-3]
    if target == "bench-cluster":
        chosen = asked(with_both[-3:])
        assert (chosen.plan, chosen.json) == (QUICK, file)


def test_make_hands_on_that_the_scaling_is_compared_and_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "the plot.png"
    words = command_of("bench-cluster", "SCALING=1", f"PLOT={plot}")
    assert words[-3:] == ["--scaling", "--plot", str(plot)]
    chosen = asked(words[-3:])
    assert (tuple(chosen.parts), chosen.plot) == ((*PARTS, SCALING), plot)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--plot", "plot.png"], "add --scaling"),
        (["--scaling", "--plot", "plot.txt"], "ends in none of .png, .svg"),
    ],
    ids=["of what is not measured", "that cannot be drawn"],
)
def test_a_plot_is_refused_before_anything_is_measured(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        asked(words)
    assert raised.value.code == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("name", ["missing/figures.json", ""], ids=["in no folder", "a folder"])
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_measured(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        asked(["--json", str(tmp_path / name)])
    assert raised.value.code == 2
    assert "name a file in a directory that is there" in capsys.readouterr().err


def test_what_is_written_is_what_was_reported(tmp_path: Path) -> None:
    made = report()
    made.add(Figure("some_ms", "something", 1.23456789, "ms"))
    (tmp_path / "figures.json").write_text("an earlier run")
    made.save(tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text()) == {"some_ms": 1.2346}


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_a_figure_without_a_number_is_null_so_that_any_program_reads_the_file(value: float) -> None:
    made = report()
    made.add(Figure("pass_lag_max_s", "none later than", value, "s"))
    assert json.loads(made.as_json()) == {"pass_lag_max_s": None}
    assert "NaN" not in made.as_json()
    assert "Infinity" not in made.as_json()
