"""The state that local mode shows: written by the runners, read by the display."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from claimq.model import Snapshot
from claimq_admin.reads.decisions import needs_attention
from claimq_admin.reads.recent_snapshots import RecentSnapshots
from claimq_control.scaling import Decision

_RATE_SECONDS = 3.0
_KEPT_LINES = 200
_KEPT_DECISIONS = 3


@dataclass(frozen=True, slots=True)
class Line:
    """An event. ``at``: the local time of day; ``queue``: empty if it is about no particular one."""

    at: str
    text: str
    is_trouble: bool = False
    queue: str = ""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as shown. Process ids are None while there is no process."""

    name: str
    stage: str
    busy: int
    restarts: int
    sidecar_pid: int | None
    app_pid: int | None


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """A scaling decision that changed the number of workers."""

    at: str
    replicas: int
    rule: str
    reason: str


@dataclass(slots=True)
class QueueBoard:
    """A queue as shown. ``problem`` is set while its server does not answer."""

    name: str
    max_replicas: int
    snapshot: Snapshot | None = None
    problem: str = ""
    workers: tuple[WorkerRow, ...] = ()
    decision: Decision | None = None
    conditions: Sequence[Mapping[str, str]] = ()
    """Those of the last pass, as the status of a ReliableQueue has them."""
    decisions: deque[DecisionRow] = field(default_factory=lambda: deque[DecisionRow](maxlen=_KEPT_DECISIONS))
    most_ready: int = 0
    _recent: RecentSnapshots = field(default_factory=lambda: RecentSnapshots(_RATE_SECONDS))

    @property
    def attention(self) -> tuple[str, ...]:
        """See :func:`needs_attention`."""
        return needs_attention(self.conditions)

    @property
    def ready(self) -> int:
        """Number of workers that can claim."""
        return sum(row.stage == "ready" for row in self.workers)

    @property
    def done(self) -> int:
        """Items done since the queue was created."""
        return self.snapshot.counters["done"] if self.snapshot else 0

    def see(self, snapshot: Snapshot | None, problem: str = "") -> None:
        """Records an observation."""
        self.problem = problem
        if snapshot is not None:
            self.snapshot = snapshot
            self._recent.add(snapshot)

    def decide(self, decision: Decision, before: int) -> None:
        """Records a decision, and keeps those that change the number of workers."""
        self.decision = decision
        if decision.replicas is not None and decision.replicas != before:
            self.decisions.append(
                DecisionRow(clock(), decision.replicas, decision.rule.value, decision.reason)
            )

    def show_workers(self, rows: tuple[WorkerRow, ...]) -> None:
        """Records the workers."""
        self.workers = rows
        self.most_ready = max(self.most_ready, self.ready)

    @property
    def rate(self) -> float:
        """Items done per second, over the last few seconds."""
        return self._recent.rate("done")


@dataclass(slots=True)
class Board:
    """Everything that the screen shows."""

    title: str = ""
    server: str = ""
    queues: dict[str, QueueBoard] = field(default_factory=dict[str, QueueBoard])
    lines: deque[Line] = field(default_factory=lambda: deque[Line](maxlen=_KEPT_LINES))
    on_line: Callable[[Line], None] | None = None

    def note(self, text: str, *, is_trouble: bool = False, queue: str = "") -> None:
        """Adds an event."""
        line = Line(clock(), text, is_trouble, queue)
        self.lines.append(line)
        if self.on_line is not None:
            self.on_line(line)


def clock() -> str:
    """The local time of day."""
    return time.strftime("%H:%M:%S")
