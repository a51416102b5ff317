"""`make record`: records the arrivals of a queue as a trace for `make simulate`."""

import asyncio

import click

import claimq
from claimq.model import Snapshot, State
from claimq_cli.commands.options.option_types import Duration
from claimq_control.scaling import Estimates

_LONGEST_INTERVAL = 60.0


@click.command("record")
@click.argument("name")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), default=3600.0, show_default=True)
@click.option("--interval", type=Duration(), default="1s", show_default=True, help="At most 1m.")
def record(name: str, seconds: float, interval: float) -> None:
    """Record the arrivals of the queue NAME on the server of $CLAIMQ_REDIS_URL.

    Each line has the items that were enqueued since the previous sample, and the mean time that items were in progress
    so far. The program only reads. Ctrl-C ends the recording early; what was printed is a valid trace.
    """
    pause = min(max(interval, 0.05), _LONGEST_INTERVAL)
    asyncio.run(_record(name, seconds, pause))


async def _record(name: str, seconds: float, pause: float) -> None:
    async with claimq.connect() as server:
        queue = server.queue(name)
        recording = Recording(await queue.snapshot())
        click.echo(f"# arrivals of {name}\nat,count,seconds")
        while recording.seconds < seconds:
            await asyncio.sleep(min(pause, seconds - recording.seconds))
            row = recording.row(await queue.snapshot())
            if row:
                click.echo(row)


class Recording:
    """Compares the counters of each snapshot with those of the one before."""

    def __init__(self, first: Snapshot) -> None:
        self._first = self._last = first
        self._estimates = Estimates()
        self._learn(first)

    @property
    def seconds(self) -> float:
        """Seconds from the first snapshot to the last one, by the server's clock."""
        return self._last.now - self._first.now

    def row(self, snapshot: Snapshot) -> str:
        """The CSV line of what arrived since the last snapshot; empty if nothing did, or if the counters went back."""
        came = snapshot.counters["enqueued"] - self._last.counters["enqueued"]
        at = self.seconds
        self._last = snapshot
        self._learn(snapshot)
        return f"{at:.2f},{came},{self._service()}" if came > 0 else ""

    def _learn(self, snapshot: Snapshot) -> None:
        self._estimates = self._estimates.after(
            snapshot.now,
            main=snapshot.lengths[State.MAIN],
            busy=snapshot.lengths[State.BUSY],
            claimed=snapshot.counters["claimed"],
            ready=0,
            starting_for=(),
            horizon=0.0,
        )

    def _service(self) -> str:
        """Mean seconds that an item was in progress; empty until a claim has ended."""
        estimates = self._estimates
        return f"{estimates.busy_seconds / estimates.ended:.3f}" if estimates.ended else ""
