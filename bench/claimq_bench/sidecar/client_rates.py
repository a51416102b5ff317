"""The clients for Node.js and Go beside careful programs without a client, in turns: items that do nothing."""

import shutil
from contextlib import ExitStack
from pathlib import Path

from claimq_bench.figures import Report
from claimq_bench.meter import Bed, Spread, ratios
from claimq_bench.plan import Plan
from claimq_bench.sidecar.through_sidecar import HERE, Sidecar, delivered
from testkit.programs.languages import Command, build_go, install_node
from testkit.programs.places import new_directory
from testkit.programs.processes import Process

PROGRAMS = HERE / "clients"
WAYS = ("by_hand", "by_client")
ROUNDS = 5
CONCURRENCY = "100"


async def report(report: Report, bed: Bed, plan: Plan) -> None:
    """Measures, and adds the figures. WrongResult when items do not add up."""
    report.heading(f"Items to a program by hand and to one with a client, {CONCURRENCY} at once")
    for language in ("node", "go"):
        if not shutil.which(language):
            report.note(f"{language} is not installed")
            continue
        rates = await _rates(bed, language, plan.stream_items // 5)
        for way, of_way in rates.items():
            name = f"{way}_items_per_second_{language}"
            report.of_rounds(name, f"{language}, {way.replace('_', ' ')}", Spread.of(of_way), unit="/s")
        report.of_rounds(
            f"client_vs_by_hand_{language}",
            "the client over the program by hand",
            ratios(rates["by_client"], rates["by_hand"], float),
            least=0.7,
            limit="the sidecar's time, and an object for each item",
        )


async def _rates(bed: Bed, language: str, items: int) -> dict[str, list[float]]:
    """Items a second of each way, round by round."""
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with ExitStack() as after:
        after.callback(bed.empty)
        pairs: dict[str, tuple[Sidecar, Process]] = {}
        for way in WAYS:
            folder = new_directory()
            after.callback(shutil.rmtree, folder, ignore_errors=True)
            command = _command(language, way, folder)
            sidecar = Sidecar(bed, way.replace("_", "-"), CLAIMQ_CONCURRENCY=CONCURRENCY)
            after.callback(sidecar.close)
            env = {"CLAIMQ_SOCKET": str(sidecar.socket)}
            app = after.enter_context(Process(command, log=folder / "log", env=env, cwd=folder))
            pairs[way] = sidecar, app
        for _ in range(ROUNDS):
            for way, (sidecar, app) in pairs.items():
                rates[way].append((await delivered(bed, sidecar, app, items)).rate)
    return rates


def _command(language: str, way: str, folder: Path) -> Command:
    if language == "go":
        return build_go("go", PROGRAMS / f"{way}.go", folder)
    npm = Path(shutil.which("npm") or "npm").resolve()
    return install_node("node", npm, PROGRAMS / f"{way}.js", folder)
