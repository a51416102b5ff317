"""Runs local mode: the server, the queues and the state directory. Leaves no process or socket behind."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import claimq
from claimq.model import State
from claimq_admin.errors import INTERRUPTED, CommandError, LocalModeError
from claimq_admin.text import count
from claimq_control.manifest import Manifest
from claimq_control.queue_metrics import QueueMetrics
from claimq_local import discovery, leftovers
from claimq_local.embedded_valkey import EmbeddedValkey
from claimq_local.process_platform import connection_settings
from claimq_local.processes import process_table
from claimq_local.processes.child import Child
from claimq_local.queue_runner import QueueRunner
from claimq_local.reloading import Reloader, Watched
from claimq_local.screen.board import Board
from claimq_local.state_directory import Running, RunState, StateDirectory
from claimq_local.workers.worker import Worker

Report = Callable[[str], None]
Loader = Callable[[claimq.ReliableQueue, asyncio.Event, Report], Awaitable[str]]
"""Enqueues items until the event is set, reports what it leaves out, and returns a line for the screen. Raises
CommandError or ClaimqError."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of `claimq up`. ``directory``: working directory of the workers, usually that of the manifest."""

    manifests: tuple[Manifest, ...]
    directory: Path
    data: Path
    url: str | None = None
    until_empty: bool = False
    take_over: tuple[str, ...] = ()
    """Owners from which queues may be taken over, written as in the error message."""
    loader: Loader | None = None
    """Enqueues the lines of --lines; needs a single manifest."""
    watched: Watched | None = None
    """The files whose changes replace the workers."""


class LocalMode:
    """Runs queues on this machine. Await :meth:`run` once, on the main thread: the kernel kills the children when the
    thread that started them ends.
    """

    def __init__(self, options: Options, board: Board) -> None:
        self.options = options
        self.board = board
        self.directory = StateDirectory(options.data)
        self.mark = secrets.token_hex(16)
        self.logs = self.directory.logs
        self.sockets = Path()
        self.runners: list[QueueRunner] = []
        self.metrics = QueueMetrics()
        self.valkey = EmbeddedValkey(self)
        self.started = asyncio.Event()
        self._stop = asyncio.Event()
        self._stops = 0
        self._claim_names: dict[str, list[str]] = {}

    async def run(self) -> None:
        """Starts everything, runs until :meth:`stop` (or until no item is left), and cleans up.

        Raises LocalModeError or an error of the store if it cannot start; it cleans up then, too.
        """
        self.directory.hold()
        try:
            earlier = leftovers.clear(self.directory)
            self.sockets = self.directory.make_socket_directory()
            self.save()
            await self._run(earlier)
        finally:
            process_table.end_all(lambda: process_table.marked(self.mark))
            discovery.withdraw(self.directory)
            self.directory.forget_run(self._state())
            self.directory.release()

    def stop(self) -> None:
        """Drains the workers and stops. A second call ends the drain early, a third kills the workers."""
        if not self._stops:
            self._drain("press Ctrl-C again to stop immediately")
            return
        self._stops += 1
        for runner in self.runners:
            if self._stops == 2:
                runner.hurry()
            elif self._stops > 2:
                runner.kill_all()

    def _drain(self, hint: str) -> None:
        """Begins the drain, unless it has begun: a second call of :meth:`stop` would end it."""
        if self._stops:
            return
        self._stops = 1
        self.board.note(f"stopping: workers finish their items; {hint}")
        self._stop.set()

    def stop_on_signals(self) -> None:
        """SIGINT, SIGTERM and SIGHUP (unless they are ignored) call :meth:`stop`."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self.stop)

    def note(self, text: str, *, is_trouble: bool = False, queue: str = "") -> None:
        """Shows a line, which may be about a queue."""
        self.board.note(text, is_trouble=is_trouble, queue=queue)

    def changed(self) -> None:
        """A process was started or has ended: saves the state and triggers the next pass."""
        self.save()
        for runner in self.runners:
            runner.look()

    def save(self) -> None:
        """Saves the state, for other commands and the next run."""
        try:
            self.directory.write(self._state())
        except OSError as error:
            logging.getLogger(__name__).warning("cannot write the state file: %s", error.strerror)

    async def _run(self, earlier: RunState | None) -> None:
        try:
            if any(self._url_of(manifest) is None for manifest in self.options.manifests):
                await self.valkey.start(self.sockets)
                self.board.server = f"embedded Valkey, data in {self.directory.valkey}"
            where = self.options.directory
            self.runners = [
                QueueRunner(number, self._here(manifest), self._server_of(manifest), where, self)
                for number, manifest in enumerate(self.options.manifests)
            ]
            await self._run_queues(earlier)
        finally:
            await self.valkey.stop()

    def _url_of(self, manifest: Manifest) -> str | None:
        redis = manifest.spec.redis
        return self.options.url or (redis.address() if redis is not None else None)

    def _server_of(self, manifest: Manifest) -> str:
        return self._url_of(manifest) or self.valkey.url

    def _here(self, manifest: Manifest) -> Manifest:
        """The manifest without a server that is only known from a Secret of the cluster."""
        redis = manifest.spec.redis
        if redis is None or self._url_of(manifest) is not None:
            return manifest
        secret = redis.secret_ref.name if redis.secret_ref is not None else ""
        self.note(
            f"{manifest.spec.queue_name}: spec.redis refers to the Secret {secret}, which `claimq up` cannot read; "
            "using the embedded Valkey (--redis URL for another server)"
        )
        return replace(manifest, spec=replace(manifest.spec, redis=None))

    async def _run_queues(self, earlier: RunState | None) -> None:
        for runner in self.runners:
            await runner.prepare(self.options.take_over)
            self.board.queues[runner.board.name] = runner.board
            if earlier is not None:
                runner.release_leftovers(earlier.claim_names.get(runner.board.name, []))
        self.started.set()
        self.save()
        discovery.announce(self.directory)
        loading = asyncio.create_task(self._load_until_empty())
        try:
            async with asyncio.TaskGroup() as group:
                for runner in self.runners:
                    group.create_task(runner.run(self._stop))
                if self.options.watched is not None:
                    reloader = Reloader(self.options.watched, self.runners, self.note, self._server_of)
                    group.create_task(reloader.run(self.directory.path, self._stop))
            await loading
        finally:
            loading.cancel()

    async def _load_until_empty(self) -> None:
        """Enqueues what the options say, and stops after an error or once the queues are empty. Raises the error, and
        CommandError if this was stopped before."""
        is_empty = True
        try:
            loaded_at = await self._load(self.runners[0], self.options.loader) if self.options.loader else 0.0
            if self.options.until_empty:
                is_empty = await self._becomes_empty(loaded_at)
        except Exception:
            self._drain("press Ctrl-C to stop immediately")
            raise
        if self.options.until_empty:
            self._drain("press Ctrl-C to stop immediately")
        if not is_empty:
            raise CommandError("interrupted; `claimq up` continues with the items that are left", INTERRUPTED)

    async def _load(self, runner: QueueRunner, loader: Loader) -> float:
        """Enqueues the items, and returns the server's time after the last one.

        The connection of its own stays open while the runner stops, so that the result of the last call is known.
        """
        async with claimq.connect(settings=connection_settings(runner.url, runner.manifest)) as server:
            queue = server.queue(runner.board.name)
            self.note(await loader(queue, self._stop, partial(self.note, is_trouble=True)))
            return (await queue.snapshot()).now

    async def _becomes_empty(self, since: float) -> bool:
        """Waits until main, busy and delayed are empty in all queues, in snapshots of ``since`` (server time) or later.
        False if this is stopped before. Failed items stay and do not count."""
        waiting = (State.MAIN, State.BUSY, State.DELAYED)
        while not self._stop.is_set():
            snapshots = [runner.platform.snapshot for runner in self.runners]
            recent = [snapshot for snapshot in snapshots if snapshot and snapshot.now >= since]
            if len(recent) == len(self.runners) and not any(
                snapshot.lengths[state] for snapshot in recent for state in waiting
            ):
                failed = sum(snapshot.lengths[State.FAILED] for snapshot in recent)
                has_failed = f"; {count(failed)} in failed" if failed else ""
                self.note(f"main, busy and delayed are empty{has_failed}")
                return True
            await asyncio.sleep(0.2)
        return False

    def processes(self) -> list[Child]:
        """The running child processes."""
        workers: list[Worker] = [worker for runner in self.runners for worker in runner.workers.values()]
        children = [self.valkey.child, *(part for worker in workers for part in (worker.sidecar, worker.app))]
        return [child for child in children if child is not None and child.is_running]

    def _state(self) -> RunState:
        identity = process_table.identify(os.getpid())
        for runner in self.runners:
            live = [worker.claim_name for worker in runner.workers.values() if worker.claim_name]
            self._claim_names[runner.board.name] = live
        return RunState(
            mark=self.mark,
            boot=process_table.boot_id(),
            pid=os.getpid(),
            started=identity.started if identity else 0,
            sockets=str(self.sockets),
            queues={runner.board.name: runner.url for runner in self.runners}
            if self.started.is_set()
            else {},
            processes=[
                Running(child.role, child.name, child.pid, child.identity.started)
                for child in self.processes()
            ],
            claim_names=self._claim_names,
            decisions={runner.board.name: runner.platform.decision for runner in self.runners},
            conditions={
                runner.board.name: runner.platform.status.get("conditions", []) for runner in self.runners
            },
        )


def first_error(group: BaseExceptionGroup[BaseException]) -> Exception:
    """The first error of a group, which is shown to the user."""
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return first_error(first)  # pyright: ignore[reportUnknownArgumentType]  # isinstance() loses the type argument
    return first if isinstance(first, Exception) else LocalModeError(str(first))
