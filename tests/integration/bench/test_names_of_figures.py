"""The table of bench/README.md has the names of all figures that the benchmark writes, and no others."""

import itertools
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest

from claimq_bench import program
from claimq_bench.calls import consuming, flow, killing, looking, reaping, scale
from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Cost, Spread
from claimq_bench.plan import FULL
from claimq_bench.sidecar import latency, pushing, streaming, through_sidecar
from testkit.repository.tree import ROOT

PLAN = replace(
    FULL,
    settings=tuple(replace(one, items=one.batch, rounds=1) for one in FULL.settings),
    single_items=50,
    consume_items=200,
    consume_rounds=1,
    stream_items=1000,
    reap_runs=1,
)
"""The batches and sizes of the full benchmark, with next to no items."""
COST, SPREAD = Cost(1, 1.0, 1.0, 1.0, 1.0), Spread(1.0, 1.0, 1.0)


def documented(text: str) -> list[str]:
    """The names in the first column of the table, each alternative of `{a,b}` in turn."""
    _, _, section = text.partition("## The figures in the JSON")
    cells = re.findall(r"^\| (`[^|]*) \|", section.partition("\n## ")[0], re.MULTILINE)
    return [name for cell in cells for given in re.findall("`([^`]+)`", cell) for name in _expanded(given)]


def _expanded(name: str) -> Iterator[str]:
    parts = [part.split(",") for part in re.split(r"[{}]", name)]
    return ("".join(chosen) for chosen in itertools.product(*parts))


def _always(result: object) -> Callable[..., Awaitable[object]]:
    async def measured(*_: object, **__: object) -> object:
        return result

    return measured


def _which(command: str) -> str:
    return f"/usr/bin/{command}"


@pytest.fixture
def what_takes_long_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of measurements with many items, processes or sidecars."""
    of_defaults = {"coroutine": [COST], "function": [COST]}
    rates = through_sidecar.Rates(SPREAD, SPREAD, SPREAD)
    compared = scale.Compared([COST], [COST])
    of_flow = flow.Found({pair.name: compared for pair in flow.PAIRS}, compared, [(1.0, 1.0)], 0.0, 1.0)
    for module, name, result in (
        (consuming, "measure", consuming.Found([COST], [COST], of_defaults, [1.0], [1.0], [1.0], [1.0])),
        (flow, "measure", of_flow),
        (killing, "_measure", 1.0),
        (looking, "where_us", {"somewhere": 1.0}),
        (latency, "measure", latency.Latencies({way: [1.0] * latency.ROUNDS for way in latency.SAYS})),
        (pushing, "measure", pushing.Found("Go", SPREAD, SPREAD)),
        (reaping, "measure", reaping.Reaping(COST, SPREAD, 1.0)),
        *((scale, name, compared) for name in ("waiting", "busy", "clients")),
        (streaming, "_rounds", ([through_sidecar.Delivery(1.0, 1.0, 1.0, 1.0)], [1.0], 1.0)),
        (
            through_sidecar,
            "measure",
            through_sidecar.Found(SPREAD, rates, SPREAD, rates, rates, 1.0, 1.0, SPREAD),
        ),
    ):
        monkeypatch.setattr(module, name, _always(result))
    monkeypatch.setattr(shutil, "which", _which)


@pytest.mark.usefixtures("what_takes_long_is_known")
async def test_the_documented_names_are_those_that_the_benchmark_writes() -> None:
    report = Report(write=lambda _: None)
    bed = Bed(persistent=True)
    try:
        for part in program.PARTS:
            await program._PARTS[part](report, bed, PLAN)
    finally:
        bed.close()
    names = documented((ROOT / "bench/README.md").read_text())
    assert sorted(names) == sorted(figure.name for figure in report.figures)


@pytest.mark.parametrize(
    "name",
    [
        "consume_per_item_vs_lists_b100",
        "consume_two_processes_vs_one",
        "enqueue_single_blocking_vs_lpush",
        "enqueue_50_concurrent_vs_lpush",
        "worker_items_default_per_second",
        "socket_items_per_second_concurrent_50",
        "stream_items_per_second_python",
        "stream_items_per_second_go",
        "push_items_per_second_32",
        "latency_p50_vs_blmove",
        "library_kill_to_reclaim_s",
    ],
)
def test_a_figure_that_others_compare_keeps_its_name(name: str) -> None:
    assert name in documented((ROOT / "bench/README.md").read_text())
