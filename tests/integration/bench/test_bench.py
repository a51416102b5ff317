"""The benchmarks as their user runs them, the shortest part, and what they do with large items: never how fast."""

import json
import subprocess
from pathlib import Path

import claimq
from claimq_bench.rivals import Library, new_payloads
from testkit.make import command_of
from testkit.server import Server
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


async def test_a_batch_that_one_call_cannot_claim_is_worked_off_in_several(valkey: Server) -> None:
    async with claimq.connect(valkey.url) as store:
        library = Library(store.queue("cycle", worker="bench"))
        payloads = new_payloads(500, 10_000)
        await library.enqueue(payloads, 500)
        assert await library.work_off(500, 500) == payloads
        assert await library.left() == 0
