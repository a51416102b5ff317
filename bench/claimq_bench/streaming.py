"""Streams: a sidecar delivers items to a minimal app, in Python and (if it is installed) in Go."""

import asyncio
import json
import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from claimq.worker.wire import request
from claimq_bench.consuming import of_lists
from claimq_bench.figures import Figure, Report
from claimq_bench.meter import Bed, Spread, must, ratios
from claimq_bench.rivals import Lists
from claimq_bench.through_sidecar import Sidecar, delivered
from testkit.places import new_directory
from testkit.processes import Process

WINDOW = 1_000
ROUNDS = 3
END_OF_HEAD = b"\r\n\r\n"
LEAST = {"python": 80_000, "go": 100_000}
LISTS = 94_500
"""Items a second of lists in pipelines of 100 on the machine for which these targets were set."""


def work(path: Path) -> None:
    """The app in Python: reads a stream and ends its items in batches, one request at a time."""
    asyncio.run(_read_and_settle(path))


async def _read_and_settle(path: Path) -> None:
    delivered: asyncio.Queue[list[str]] = asyncio.Queue()
    words = {"window": WINDOW, "encoding": "base64"}
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_settle(path, delivered))
        lines, sender = await asyncio.open_unix_connection(path)
        sender.write(request("/v1/stream", json.dumps(words).encode()))
        await lines.readuntil(END_OF_HEAD)
        while size := int(await lines.readline(), 16):
            line = json.loads(await lines.readexactly(size + 2))
            if "claims" in line:
                delivered.put_nowait([claim["token"] for claim in line["claims"]])


async def _settle(path: Path, delivered: asyncio.Queue[list[str]]) -> None:
    replies, sender = await asyncio.open_unix_connection(path)
    while True:
        tokens = await delivered.get()
        while not delivered.empty():
            tokens += delivered.get_nowait()
        sender.write(request("/v1/done", json.dumps({"tokens": tokens}).encode()))
        head = await replies.readuntil(END_OF_HEAD)
        must(head.startswith(b"HTTP/1.1 200 "), "a verdict was refused")
        await replies.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))


async def report(report: Report, bed: Bed, *, items: int) -> None:
    """Measures, and adds the figures. WrongResult when items do not add up."""
    report.heading(f"By a stream to a minimal app, which ends items in batches; a window of {WINDOW:,}")
    for language, least in LEAST.items():
        if language == "go" and not shutil.which("go"):
            report.note("Go is not installed")
            continue
        rounds, rss_mb = await _rounds(bed, language, items)
        rates, costs, lists_rates = zip(*rounds, strict=True)
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
        report.of_rounds(
            f"stream_sidecar_us_per_item_{language}",
            "processor time of the sidecar",
            Spread.of(costs),
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


async def _rounds(bed: Bed, language: str, items: int) -> tuple[list[tuple[float, float, float]], float]:
    """Items a second, microseconds of the sidecar for each, and items a second of lists, in turns; then the sidecar's
    memory in MB.
    """
    lists = Lists(bed.client())
    folder = new_directory()
    sidecar = Sidecar(bed, "stream")
    try:
        close = _go(folder, sidecar.socket) if language == "go" else _python(sidecar.socket)
        try:
            rounds = [
                (*await delivered(bed, sidecar, items), (await of_lists(bed, lists, items // 4)).rate)
                for _ in range(ROUNDS)
            ]
            return rounds, sidecar.rss_mb()
        finally:
            close()
    finally:
        sidecar.close()
        shutil.rmtree(folder, ignore_errors=True)
        bed.empty()


def _python(socket: Path) -> Callable[[], object]:
    """Starts the app in Python; returns what ends it."""
    app = multiprocessing.get_context("spawn").Process(target=work, args=(socket,), daemon=True)
    app.start()
    return app.kill


def _go(folder: Path, socket: Path) -> Callable[[], object]:
    """Starts the app in Go; returns what ends it."""
    source = Path(__file__).with_name("stream_app.go")
    build = ["go", "build", "-o", folder / "app", source]
    subprocess.run(build, check=True, env={**os.environ, "GO111MODULE": "off"})
    return Process([folder / "app", socket], log=folder / "log", cwd=folder).kill9
