"""A worker: a sidecar and an app, started, restarted and stopped step by step as `plan` decides."""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from claimq.concurrency.background_work import spawn
from claimq.model import Reason
from claimq_control.decide.conditions.workers_available import APP_NOT_READY
from claimq_control.manifest import Manifest
from claimq_control.queue_metrics import QueueMetrics
from claimq_control.workers import Termination, WorkerProblem, WorkerState
from claimq_local.plan import LISTEN_SECONDS, Drain, Part, Patience, Step, WorkerSeen
from claimq_local.processes.child import Child, Program
from claimq_local.processes.restarts import Restarts
from claimq_local.screen.board import WorkerRow
from claimq_local.workers import environment, sidecar_client
from claimq_process.duration import format_duration, readable_duration

_READY_POLL = 0.03
_LONGEST_POLL = 1.0
"""Seconds between two polls of a sidecar whose app is ready, and the longest pause between two before."""
_SEEN_LATE = 30.0
"""Seconds that this process may take to see the end of an app, as on a busy machine. The sidecar sees it sooner."""
_LONGEST_PREFIX = 60
"""Characters of the worker's name in the name under which its sidecar claims."""
_KILLED_FROM_OUTSIDE = ("was killed by SIGKILL", "was killed by SIGTERM")
"""Exits after which the log is not shown, since it does not explain them."""


class WorkerContext(Protocol):
    """What a worker needs from local mode."""

    mark: str
    sockets: Path
    logs: Path
    metrics: QueueMetrics

    def note(self, text: str, *, is_trouble: bool = False, queue: str = "") -> None:
        """Shows a line, which may be about a queue."""
        ...

    def changed(self) -> None:
        """A process was started or has ended: saves the state and triggers the next pass."""
        ...

    def save(self) -> None:
        """Saves the state, to which the last scaling decision belongs."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The end of a process of a worker: the name under which its sidecar claimed, and the cause.

    ``since``: how many seconds before ``at`` a crash with this cause happened at the earliest.
    """

    claim_name: str
    cause: str
    reason: Reason = Reason.CRASHED
    is_sidecar: bool = False
    since: float = 1.0
    at: float = field(default_factory=time.monotonic)

    @property
    def id(self) -> str:
        """Names this end."""
        return f"{self.claim_name} {self.at}"

    def termination(self, now: float) -> Termination:
        """The end as a pass handles it: no other run of the app begins before that."""
        return Termination(
            container_id=self.id,
            prefix=self.claim_name,
            is_sidecar=self.is_sidecar,
            cause=self.cause,
            reason=self.reason,
            is_last=True,
            worker=self.claim_name,
            within=now - self.at + self.since,
            recounts=False,
        )


@dataclass(slots=True)
class Worker:
    """The processes of a worker and their state."""

    number: int
    queue_number: int
    manifest: Manifest
    url: str
    context: WorkerContext
    add_end: Callable[[ProcessEnd], None]
    directory: Path
    sidecar: Child | None = None
    app: Child | None = None
    claim_name: str = ""
    restarts: int = 0
    is_stuck: bool = False
    is_releasing: bool = False
    """Whether claims of a process that has ended were not given back yet. The app does not start before that."""
    drain: Drain | None = None
    patience: Patience = field(default_factory=Patience)
    ordered_at: float = field(default_factory=time.monotonic)
    _starts: int = 0
    _is_sidecar_ready: bool = False
    _app_trouble: str = ""
    """Why its app cannot get the items that the sidecar sends, as the sidecar reports; empty if it can."""
    _has_app_listened: bool = False
    _health_port: int = 0
    _push_port: int = 0
    _lifecycle_key: str = ""
    _sidecar_restarts: Restarts = field(default_factory=Restarts)
    _app_restarts: Restarts = field(default_factory=Restarts)
    _failure: str = ""

    @property
    def name(self) -> str:
        """Its name in messages, on the screen and of its log files."""
        return f"{self.manifest.spec.queue_name}-{self.number}"

    @property
    def socket(self) -> Path:
        """Its socket, the same for each sidecar that it starts. Its path is short: see `state_directory`."""
        return self.context.sockets / socket_name(self.queue_number, self.manifest.name, self.number)

    def state(self, busy: int, now: float, wall: float) -> WorkerState:
        """Its state as input of a pass. ``now``: monotonic seconds; ``wall``: the same instant in Unix seconds."""
        state = self.seen()
        problem = None
        if state.waits_to_restart(now):
            problem = WorkerProblem("Restarting", self._failure, f"worker {self.name}")
        elif state.waits_for_app(now):
            problem = WorkerProblem(APP_NOT_READY, self._app_trouble, f"worker {self.name}")
        trouble = f"{self._app_trouble}; " if state.app is Part.STARTING else ""
        return WorkerState(
            name=self.name,
            is_ready=state.is_ready,
            is_terminating=self.drain is not None,
            created_at=wall - (now - self.ordered_at),
            problem=problem,
            hint=f"; {trouble}if this persists, see the files {self.name}.*.log in {self.context.logs}",
            busy=busy,
        )

    def row(self, busy: int, now: float) -> WorkerRow:
        """Its state as the screen shows it."""
        pids = (None if part is None else part.pid for part in (self.sidecar, self.app))
        return WorkerRow(self.name, self.seen().stage(now), busy, self.restarts, *pids)

    def seen(self) -> WorkerSeen:
        """Its state as input of `plan`."""
        sidecar = Part.RUNNING if self._is_sidecar_ready else Part.STARTING
        app = Part.STARTING if self._app_trouble else Part.RUNNING
        return WorkerSeen(
            number=self.number,
            sidecar=Part.ABSENT if self.sidecar is None else sidecar,
            app=Part.ABSENT if self.app is None else app,
            sidecar_since=self.sidecar.since if self.sidecar else 0.0,
            app_since=self.app.since if self.app else 0.0,
            has_listened=self._has_app_listened,
            sidecar_retry_at=self._sidecar_restarts.retry_at,
            app_retry_at=float("inf") if self.is_releasing else self._app_restarts.retry_at,
            is_stuck=self.is_stuck,
            drain=self.drain,
        )

    async def perform(self, step: Step, now: float) -> None:
        """Performs a step, except REMOVE, which the caller performs."""
        match step:
            case Step.START_SIDECAR:
                await self._start_or_wait(self._start_sidecar)
            case Step.START_APP:
                await self._start_or_wait(self._start_app)
            case Step.ASK_DRAIN:
                self.drain = replace(self.begin_drain(), is_asked=True)
                spawn(self._drain_sidecar(), name=self.name)
            case Step.STOP_APP:
                self.drain = replace(self.begin_drain(), app_stopped_at=now)
                _send(self.app, signal.SIGTERM)
            case Step.STOP_SIDECAR:
                self.drain = replace(self.begin_drain(), sidecar_stopped_at=now)
                _send(self.sidecar, signal.SIGTERM)
            case Step.KILL_APP:
                _send(self.app, signal.SIGKILL)
            case Step.KILL_SIDECAR:
                _send(self.sidecar, signal.SIGKILL)
            case Step.REMOVE:
                return

    def begin_drain(self) -> Drain:
        """Starts to drain the worker, if it does not drain yet; returns how far that is."""
        if self.drain is None:
            self.drain = Drain(since=time.monotonic())
        return self.drain

    async def check_for_stuck_item(self) -> None:
        """Kills the app, as a kubelet does, if the sidecar reports that an item takes too long."""
        if not self._is_sidecar_ready or self.app is None:
            return
        child = self.app
        try:
            status, body = await sidecar_client.get(self._health_port, "/worker/livez")
        except sidecar_client.NoAnswer:
            return
        if status == sidecar_client.UNAVAILABLE and self.app is child and not self.is_stuck:
            self.is_stuck = True
            self._note(f"{self.name}: {json.loads(body)['why']}; killing the app")
            self.context.changed()

    async def sidecar_metrics(self) -> str | None:
        """The metrics of its sidecar in the text format; None if it does not answer within two seconds."""
        if not self._is_sidecar_ready:
            return None
        try:
            status, body = await sidecar_client.get(self._health_port, "/metrics")
        except sidecar_client.NoAnswer:
            return None
        return body.decode("utf-8", "replace") if status == sidecar_client.OK else None

    async def _start_or_wait(self, start: Callable[[], Coroutine[None, None, None]]) -> None:
        """Starts a process. If the system cannot start one, it is retried like a restart."""
        try:
            await start()
            self.context.changed()
        except OSError as error:
            for restarts in (self._sidecar_restarts, self._app_restarts):
                restarts.add_exit(ran_for=0.0, now=time.monotonic())
            self._note(f"{self.name}: cannot start a process: {error.strerror}")

    async def _start_sidecar(self) -> None:
        self._starts += 1
        self.claim_name = f"{self.name[:_LONGEST_PREFIX]}.{self.context.mark[:8]}.{self._starts:04}"
        self._health_port = _free_port()
        self._push_port = (
            self._push_port or _free_port()
        )  # the app keeps it when only the sidecar is restarted
        self._lifecycle_key = secrets.token_hex(16)
        self._is_sidecar_ready, self._app_trouble = False, ""
        instance = environment.SidecarInstance(
            self.url, self.socket, self._health_port, self.claim_name, self._lifecycle_key, self._push_port
        )
        self.sidecar = await self._start(
            "sidecar",
            [sys.executable, "-m", "claimq_sidecar"],
            environment.for_sidecar(os.environ, self.manifest, instance),
            self._sidecar_ended,
        )
        spawn(self._watch_readiness(self.sidecar, self._health_port), name=self.name)

    async def _start_app(self) -> None:
        self.is_stuck = self._has_app_listened = False
        worker = self.manifest.spec.worker
        self.app = await self._start(
            "app",
            [*worker.command, *worker.args],
            environment.for_app(os.environ, self.manifest, self.socket, self._push_port),
            self._app_ended,
        )

    async def _start(
        self, role: str, command: list[str], env: dict[str, str], on_end: Callable[[Child], None]
    ) -> Child:
        log = self.context.logs / f"{self.name}.{role}.log"
        program = Program(role, self.name, command, env, self.directory, log)
        return await Child.start(program, mark=self.context.mark, on_end=on_end)

    async def _watch_readiness(self, sidecar: Child, port: int) -> None:
        """Polls the sidecar until it is ready, or until it ends if it sends items to its app."""
        pause = _READY_POLL
        while sidecar.is_running:
            trouble = await sidecar_client.app_trouble(port)
            if self.sidecar is not sidecar:
                return
            if trouble is not None:
                self._has_app_listened |= not trouble and _is_past_start(self.app)
                if (True, trouble) != (self._is_sidecar_ready, self._app_trouble):
                    self._is_sidecar_ready, self._app_trouble = True, trouble
                    self.context.changed()
                if self.manifest.spec.worker.pushes is None:
                    return
                pause = min(1.5 * pause, _LONGEST_POLL) if trouble else _LONGEST_POLL
            await asyncio.sleep(pause)

    async def _drain_sidecar(self) -> None:
        port, key, timeout = self._health_port, self._lifecycle_key, self.patience.drain + 5.0
        try:
            await sidecar_client.begin_drain(port, key, timeout=timeout)
            self.drain = replace(self.begin_drain(), is_accepted=True)
            self.context.changed()
            await sidecar_client.drain(port, key, timeout=timeout)
        except sidecar_client.NoAnswer:
            pass  # the sidecar is gone or the time is over: the app is stopped in both cases
        self.drain = replace(self.begin_drain(), is_finished=True)
        self.context.changed()

    def _sidecar_ended(self, child: Child) -> None:
        self.sidecar, self._is_sidecar_ready = None, False
        self.socket.unlink(missing_ok=True)
        if self.drain is None:
            self._report_exit(child, self._sidecar_restarts)
            cause, reason = f"its sidecar {child.how_it_ended()}", Reason.CRASHED
        else:
            cause, reason = "its worker was stopped", Reason.INTERRUPTED
        self._end(ProcessEnd(self.claim_name, cause, reason, is_sidecar=True))
        self.context.changed()

    def _app_ended(self, child: Child) -> None:
        self.app = None
        if self.drain is None:
            self._report_exit(child, self._app_restarts)
            # Claims of a session were given back when it ended; this is for claims without a session.
            cause = f"its app {_how_it_ended(self, child)}"
            self._end(ProcessEnd(self.claim_name, cause, since=max(min(child.ran_for, _SEEN_LATE), 1.0)))
        self.context.changed()

    def _end(self, end: ProcessEnd) -> None:
        self.is_releasing = True
        self.add_end(end)

    def _report_exit(self, child: Child, restarts: Restarts) -> None:
        self.restarts += 1
        how = _how_it_ended(self, child)
        self._failure = f"its {child.role} {how}, and is started again with growing delays"
        restarts.add_exit(ran_for=child.ran_for, now=time.monotonic())
        self._note(
            f"{self.name}: its {child.role} (pid {child.pid}) {how}; "
            f"restarting in {readable_duration(restarts.delay)}"
        )
        if child.how_it_ended() not in _KILLED_FROM_OUTSIDE:
            for line in child.log_tail():
                self.context.note(f"    {line}", is_trouble=True)  # not for the web page: it can be secret

    def _note(self, text: str) -> None:
        self.context.note(text, is_trouble=True, queue=self.manifest.spec.queue_name)


def _how_it_ended(worker: Worker, child: Child) -> str:
    """As :meth:`Child.how_it_ended`, with the limit for which a stuck app was killed."""
    limit = worker.manifest.spec.processing_timeout
    if child.role == "app" and worker.is_stuck and limit is not None:
        return f"was killed: over the processingTimeout of {format_duration(limit)}"
    return child.how_it_ended()


def _is_past_start(app: Child | None) -> bool:
    """Whether an app has run for long enough that what its sidecar says is not of the run before."""
    return app is not None and time.monotonic() > app.since + LISTEN_SECONDS


def _send(child: Child | None, number: signal.Signals) -> None:
    if child is not None:
        child.send(number)


def socket_name(queue_number: int, queue_name: str, number: int) -> str:
    """The file name of a worker's socket: unique and short, since a socket's path has at most 107 bytes."""
    return f"{queue_number}-{queue_name[:16]}-{number}.sock"


def _free_port() -> int:
    """A free loopback port outside the range of outgoing connections. If another program takes it first, the sidecar
    exits and is restarted with another port.
    """
    for _ in range(100):
        port = random.randint(20000, 31999)  # noqa: S311 - a port is no secret
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free loopback port between 20000 and 31999")
