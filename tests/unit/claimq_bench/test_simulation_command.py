"""The command that simulates a queue, and its charts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from claimq_bench.simulation.command import simulate_command

QUICK = ["--shape", "batch", "--length", "10m", "--seed", "3"]


def on(*arguments: str) -> Result:
    return CliRunner().invoke(simulate_command, [*QUICK, *arguments])


@pytest.mark.parametrize(("name", "begins"), [("run.png", b"\x89PNG"), ("run.svg", b"<?xml")])
def test_the_plot_has_the_format_of_its_name(tmp_path: Path, name: str, begins: bytes) -> None:
    assert on("--plot", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_the_plot_names_each_autoscaler(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").rcParams["svg.fonttype"] = "none"  # letters stay letters
    assert on("--plot", str(tmp_path / "run.svg")).exit_code == 0
    text = (tmp_path / "run.svg").read_text()
    assert all(name in text for name in ("claimq", "KEDA, defaults", "Knative-style", "waiting", "ordered"))


def test_a_plot_of_another_format_is_refused_before_the_run(tmp_path: Path) -> None:
    ended = on("--plot", str(tmp_path / "run.gif"))
    assert ended.exit_code == 2
    assert "the name ends in .png or .svg" in ended.output


def test_without_matplotlib_the_error_names_the_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    ended = on("--plot", str(tmp_path / "run.png"))
    assert ended.exit_code == 2
    assert "--plot needs matplotlib: run `make setup`" in ended.output


def test_the_result_has_the_clairvoyant_plan_and_is_the_same_with_the_same_seed() -> None:
    first, again = (on("-o", "json") for _ in range(2))
    assert first.stdout == again.stdout
    found = json.loads(first.stdout)
    ours = found["results"][0]
    assert found["clairvoyant"]["pod_seconds"] >= found["least_possible_pod_seconds"]
    assert ours["by_least_work"] >= ours["by_clairvoyant"] >= 1.0
    assert ours["share"] >= 0.99


def test_an_error_in_a_trace_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("at\nx\n")
    ended = on("--trace", str(tmp_path / "own.csv"))
    assert ended.exit_code == 2
    assert "line 2: at is 'x'" in " ".join(ended.output.split())


def test_limits_hold_for_each_autoscaler_and_an_error_names_the_option() -> None:
    ended = on("--limits", "licences:busy=1", "-o", "json")
    assert ended.exit_code == 0
    runs = json.loads(ended.stdout)["results"]
    assert max(run["share"] for run in runs) < 0.2
    ended = on("--limits", "api:rate=fast")
    assert ended.exit_code == 2
    assert "--limits: " in ended.output
