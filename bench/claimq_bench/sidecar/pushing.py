"""Push delivery: a sidecar sends items to a minimal app, in Go if it is installed, otherwise in Python."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Spread
from claimq_bench.plan import Plan
from claimq_bench.sidecar.through_sidecar import Sidecar, delivered, go_command, uvicorn_command
from testkit.programs.places import new_directory
from testkit.programs.processes import Process

CONCURRENCY = 32
ROUNDS = 3


@dataclass(frozen=True)
class Found:
    """Items per second from the first claim to the last verdict, and the sidecar's processor time for an item."""

    language: str
    items: Spread
    sidecar_us: Spread


class App:
    """The app, listening when made."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "app.sock"
        self.language = "Go" if shutil.which("go") else "Python"
        command: Sequence[str | Path]
        if self.language == "Go":
            command = [*go_command("push_app", folder), self.socket]
        else:
            command = uvicorn_command(self.socket, "claimq_bench.sidecar.push_app:app")
        self.process = Process(command, log=folder / "log", cwd=folder)

    def close(self) -> None:
        self.process.kill9()


async def measure(bed: Bed, *, items: int) -> Found:
    """The rates of several rounds through one sidecar. WrongResult when items do not add up."""
    folder = new_directory()
    app = App(folder)
    sidecar = Sidecar(bed, "push", CLAIMQ_PUSH_SOCKET=str(app.socket), CLAIMQ_CONCURRENCY=str(CONCURRENCY))
    try:
        rounds = [await delivered(bed, sidecar, app.process, items) for _ in range(ROUNDS)]
    finally:
        sidecar.close()
        app.close()
        shutil.rmtree(folder, ignore_errors=True)
    bed.empty()
    rates, costs = [one.rate for one in rounds], [one.sidecar_us for one in rounds]
    return Found(app.language, Spread.of(rates), Spread.of(costs))


async def report(report: Report, bed: Bed, plan: Plan) -> None:
    """Measures, and adds the figures."""
    found = await measure(bed, items=plan.push_items)
    report.heading(f"Pushed by the sidecar to a minimal app in {found.language}, {CONCURRENCY} at a time")
    report.of_rounds(
        f"push_items_per_second_{CONCURRENCY}",
        "one item in a request",
        found.items,
        unit="/s",
        least=8_000,
        limit="Python's time in the sidecar for a request, and the app's own time",
    )
    report.of_rounds("push_sidecar_us_per_item", "processor time of the sidecar", found.sidecar_us, unit="us")
