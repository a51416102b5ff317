"""The autoscalers to compare. Each observes the simulated queue at its own times and sets a number of pods.

KEDA and the horizontal pod autoscaler follow their documentation and source: KEDA's redis-list scaler reads
the length of one list every ``polling`` seconds, starts the first pod, and stops the last one ``cooldown``
seconds after the list was last seen with items; between one and the maximum the autoscaler acts every 15 s
with a tolerance of 10 %, may double or add four pods in 15 s (whichever is more), and goes down to the
highest number of the stabilization window. The Knative-style autoscaler works on concurrency: a stable
window of 60 s, a panic window of 6 s.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

from claimq_bench.simulation.world import Victims, View


class Scaler(Protocol):
    """Decides the number of pods, at the times that it chooses."""

    name: str
    victims: Victims

    def next_look(self, now: float, /) -> float:
        """The time of its next decision after ``now``."""
        ...

    def decide(self, view: View, /) -> int | None:
        """The desired number of pods; None: no change."""
        ...


@dataclass(frozen=True, slots=True)
class KedaSettings:
    """KEDA's and the horizontal pod autoscaler's settings; the defaults are theirs."""

    target: float = 5.0
    """listLength: items for one pod."""
    polling: float = 30.0
    cooldown: float = 300.0
    window: float = 300.0
    """stabilizationWindowSeconds on the way down."""
    min_replicas: int = 0
    max_replicas: int = 100
    is_step_limited: bool = True
    """Whether the autoscaler's default limit on the way up holds (double, or four more, in 15 s)."""

    SYNC = 15.0
    TOLERANCE = 0.1


@dataclass(slots=True)
class Keda:
    """KEDA's redis-list scaler with a horizontal pod autoscaler."""

    settings: KedaSettings = field(default_factory=KedaSettings)
    name: str = "KEDA default"
    victims: Victims = Victims.NEWEST
    _poll_at: float = 0.0
    _sync_at: float = 0.0
    _active_at: float = -math.inf
    _wanted: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    _changes: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def next_look(self, _now: float) -> float:
        """The next poll of KEDA or the next sync of the autoscaler."""
        return min(self._poll_at, self._sync_at)

    def decide(self, view: View) -> int | None:
        """What KEDA does at a poll (zero and one), or else what the autoscaler does at a sync."""
        replicas = view.replicas
        if view.now >= self._poll_at:
            self._poll_at = view.now + self.settings.polling
            replicas = self._poll(view)
        if view.now >= self._sync_at:
            self._sync_at = view.now + KedaSettings.SYNC
            if replicas > 0 and view.replicas > 0:
                replicas = self._sync(view)
        return replicas

    def _poll(self, view: View) -> int:
        least = self.settings.min_replicas
        if view.waiting > 0:
            self._active_at = view.now
            return max(view.replicas, least, 1)
        if least == 0 and view.now - self._active_at >= self.settings.cooldown:
            return 0
        return max(view.replicas, least)

    def _sync(self, view: View) -> int:
        settings, current = self.settings, view.replicas
        ratio = view.waiting / (settings.target * current)
        wanted = current
        if abs(1 - ratio) > KedaSettings.TOLERANCE:
            wanted = math.ceil(view.waiting / settings.target)
        wanted = min(max(wanted, settings.min_replicas, 1), settings.max_replicas)
        self._wanted.append((view.now, wanted))
        while self._wanted and view.now - self._wanted[0][0] > settings.window:
            self._wanted.popleft()
        if wanted < current:
            return min(current, max(count for _, count in self._wanted))
        if settings.is_step_limited:
            wanted = min(wanted, self._most(view.now, current))
        self._changes.append((view.now, wanted - current))
        return wanted

    def _most(self, now: float, current: int) -> int:
        """The autoscaler's limit counts from the number at the beginning of the last 15 s."""
        while self._changes and now - self._changes[0][0] >= KedaSettings.SYNC:
            self._changes.popleft()
        start = current - sum(more for _, more in self._changes)
        return max(2 * start, start + 4)


@dataclass(slots=True)
class Knative:
    """A concurrency autoscaler like that of Knative, on items in main and busy."""

    slots: int = 1
    utilization: float = 0.7
    max_replicas: int = 100
    name: str = "Knative-style"
    victims: Victims = Victims.NEWEST
    _seen: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])
    _panic_until: float = -math.inf
    _panic_most: int = 0
    _zero_since: float | None = None

    TICK, STABLE, PANIC, GRACE = 2.0, 60.0, 6.0, 30.0

    def next_look(self, now: float) -> float:
        """Every two seconds."""
        return now + self.TICK

    def decide(self, view: View) -> int | None:
        """The stable number, or in a panic the highest of the panic."""
        self._seen.append((view.now, view.waiting + view.busy))
        while view.now - self._seen[0][0] > self.STABLE:
            self._seen.popleft()
        per_pod = self.slots * self.utilization
        stable = self._mean(view.now - self.STABLE) / per_pod
        panic = self._mean(view.now - self.PANIC) / per_pod
        ready = max(1, view.ready)
        floor = math.floor(ready / 2)
        wanted = max(math.ceil(stable), floor if view.ready else 0)
        urgent = min(math.ceil(panic), ready * 1000)
        if panic / ready >= 2:
            self._panic_until = view.now + self.STABLE
        if view.now < self._panic_until:
            self._panic_most = max(self._panic_most, urgent, wanted)
            wanted = self._panic_most
        else:
            self._panic_most = 0
        return min(self._kept_from_zero(view, wanted), self.max_replicas)

    def _kept_from_zero(self, view: View, wanted: int) -> int:
        if view.waiting + view.busy > 0 and view.replicas == 0:
            return max(1, wanted)
        if wanted > 0:
            self._zero_since = None
            return wanted
        self._zero_since = view.now if self._zero_since is None else self._zero_since
        return 0 if view.now - self._zero_since >= self.GRACE else min(view.replicas, 1)

    def _mean(self, since: float) -> float:
        values = [count for at, count in self._seen if at > since]
        return sum(values) / len(values) if values else 0.0


@dataclass(slots=True)
class Fixed:
    """The same number of pods all the time."""

    replicas: int
    name: str = "fixed"
    victims: Victims = Victims.NEWEST

    def next_look(self, now: float) -> float:
        """Decides once; later times only detect the end of the run."""
        return now + 30.0

    def decide(self, _view: View) -> int | None:
        """The fixed number."""
        return self.replicas
