"""The benchmarks as their user runs them, the shortest part, and what they do with large items: never how fast."""

import json
import subprocess
from pathlib import Path

from claimq_bench.calls import flow, limiters
from claimq_bench.meter import Bed
from claimq_bench.rivals import Library, new_payloads
from testkit.programs.make import command_of
from testkit.repository.tree import ROOT
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

WAYS = ("blmove", "asyncio_blmove", "wake", "latency", "latency_socket")
COMPARED = (
    "wake_p50_vs_blmove",
    "latency_p50_vs_blmove",
    "latency_p99_vs_blmove",
    "latency_sidecar_adds_ms",
)


def test_the_benchmark_writes_what_it_shows_as_names_and_numbers(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = [*command_of("bench", f"JSON={file}", "QUICK=1"), "--only", "latency"]
    done = subprocess.run(
        ["env", *words], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all items accounted for" in done.stdout
    figures = json.loads(file.read_text())
    assert set(figures) == {
        *(f"{way}_{label}_ms" for way in WAYS for label in ("p50", "p99")),
        *(f"{name}{end}" for name in COMPARED for end in ("", "_min", "_max")),
    }
    assert all(isinstance(value, float) for value in figures.values())
    assert all(figures[f"{way}_p50_ms"] > 0 for way in WAYS)


async def test_a_batch_that_one_call_cannot_claim_is_worked_off_in_several(valkey: Server) -> None:
    async with open_queue(valkey.url, "cycle", worker="bench") as queue:
        library = Library(queue)
        payloads = new_payloads(500, 10_000)
        await library.enqueue(payloads, 500)
        assert await library.work_off(500, 500) == payloads
        assert await library.left() == 0


async def test_limits_and_turns_are_measured_beside_queues_without_them() -> None:
    bed = Bed(persistent=False)
    try:
        found = await flow.measure(bed, rounds=1, items=20)
        runs = [await way(bed, 20, 100) for way in limiters.WAYS.values()]
    finally:
        bed.close()
    assert set(found.costs) == {pair.name for pair in flow.PAIRS}
    assert found.share_error <= 0.05
    assert [len(run.starts) for run in runs] == [20, 20, 20]
    assert all(run.starts == sorted(run.starts) for run in runs)
