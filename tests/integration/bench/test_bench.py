"""`make bench` as its user runs it, of all its parts the shortest: never how fast it is."""

import json
import subprocess
from pathlib import Path

from testkit.make import command_of
from testkit.tree import ROOT
from testkit.waiting import PATIENCE

WAKE = {"wake_p50_ms", "wake_p99_ms", "blmove_p50_ms", "blmove_p99_ms", "wake_p50_vs_blmove"}


def test_the_benchmark_writes_what_it_shows_as_names_and_numbers(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = [*command_of("bench", f"JSON={file}", "QUICK=1"), "--only", "wake"]
    done = subprocess.run(
        ["env", *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all items accounted for" in done.stdout
    figures = json.loads(file.read_text())
    assert set(figures) - WAKE == {"wake_p50_vs_blmove_min", "wake_p50_vs_blmove_max"}
    assert set(figures) >= WAKE
    assert all(isinstance(value, float) and value > 0 for value in figures.values())
