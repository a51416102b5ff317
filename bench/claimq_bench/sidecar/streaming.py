"""Streams: a sidecar delivers items to a minimal app, in Python and (if it is installed) in Go."""

import shutil
import sys
from operator import attrgetter
from pathlib import Path

from claimq_bench.calls.consuming import of_lists
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, Spread, ratios
from claimq_bench.plan import Plan
from claimq_bench.rivals import Lists
from claimq_bench.sidecar.stream_app import WINDOW
from claimq_bench.sidecar.through_sidecar import HERE, Delivery, Sidecar, delivered, go_command
from testkit.programs.places import new_directory
from testkit.programs.processes import Process

ROUNDS = 3
LEAST = {"python": 80_000, "go": 100_000}
LISTS = 94_500
"""Items a second of lists in pipelines of 100 on the machine for which these targets were set."""


async def report(report: Report, bed: Bed, plan: Plan) -> None:
    """Measures, and adds the figures. WrongResult when items do not add up."""
    report.heading(f"By a stream to a minimal app, which ends items in batches; a window of {WINDOW:,}")
    for language, least in LEAST.items():
        if language == "go" and not shutil.which("go"):
            report.note("Go is not installed")
            continue
        rounds, lists_rates, rss_mb = await _rounds(bed, language, plan.stream_items)
        rates = [one.rate for one in rounds]
        report.of_rounds(
            f"stream_items_per_second_{language}",
            f"an app in {language.title()}",
            Spread.of(rates),
            unit="/s",
            least=least,
            limit="Python's time in the sidecar, and the app's own time",
        )
        report.of_rounds(
            f"stream_{language}_vs_lists_b100",
            "the same, to lists in pipelines of 100",
            ratios(rates, lists_rates, float),
            least=least / LISTS,
            limit="the same",
        )
        for who in ("sidecar", "app", "server"):
            report.of_rounds(
                f"stream_{who}_us_per_item_{language}",
                f"processor time of the {who}",
                Spread.of(list(map(attrgetter(f"{who}_us"), rounds))),
                unit="us",
            )
        report.add(
            Figure(
                f"stream_sidecar_rss_mb_{language}",
                "its resident memory afterwards",
                rss_mb,
                "MB",
                most=60,
                limit="Python itself and its modules",
            )
        )


async def _rounds(bed: Bed, language: str, items: int) -> tuple[list[Delivery], list[float], float]:
    """Rounds of the stream and of lists, in turns: the deliveries, and the lists' items a second; then the sidecar's
    memory in MB.
    """
    lists = Lists(bed.client())
    folder = new_directory()
    command = _command(language, folder)
    sidecar = Sidecar(bed, "stream")
    app = Process([*command, sidecar.socket], log=folder / "log", cwd=folder)
    rounds: list[Delivery] = []
    rates: list[float] = []
    try:
        for _ in range(ROUNDS):
            rounds.append(await delivered(bed, sidecar, app, items))
            rates.append((await of_lists(bed, lists, items // 4)).rate)
        return rounds, rates, sidecar.rss_mb()
    finally:
        app.kill9()
        sidecar.close()
        shutil.rmtree(folder, ignore_errors=True)
        bed.empty()


def _command(language: str, folder: Path) -> list[str | Path]:
    """Builds the app, if it must be built; returns what starts it."""
    return go_command("stream_app", folder) if language == "go" else [sys.executable, HERE / "stream_app.py"]
