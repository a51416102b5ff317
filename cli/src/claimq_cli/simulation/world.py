"""The simulated queue and its worker pods: items arrive, wait in order, are worked on; pods start, work and
stop.

An autoscaler sees :class:`View` and calls :meth:`World.order`. It never sees the items that are still to
come.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum

from claimq_cli.simulation.traces import Trace


class Victims(StrEnum):
    """Which pods go when there are to be fewer: claimq takes starting and idle ones, a plain Deployment the
    newest."""

    IDLE = "idle"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class PodSettings:
    """``start``: typical seconds from the order of a pod to its first claim. ``slots``: items a pod works
    on at once. ``grace``: seconds that a stopped pod may go on with its items before they return to the
    queue."""

    start: float = 8.0
    slots: int = 1
    grace: float = 30.0

    def draw_start(self, rng: random.Random) -> float:
        """0.75 to 1.25 times ``start``, and an exponential tail (a slow node, a cold image layer)."""
        return self.start * (rng.uniform(0.75, 1.25) + rng.expovariate(1.0) * 0.1)


@dataclass(slots=True)
class _Pod:
    ordered_at: float
    ready_at: float
    free: int = 0
    busy: int = 0
    is_ready: bool = False
    is_stopping: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """What can be observed of the queue and the pods at one moment."""

    now: float
    waiting: int
    busy: int
    replicas: int
    ready: int
    busy_pods: int
    starting: tuple[float, ...]
    """How long ago each of the starting pods was ordered."""
    oldest_age: float | None
    enqueued: int
    done: int


@dataclass(slots=True)
class Tally:
    """What one run amounted to, counted as it happens."""

    waits: list[float] = field(default_factory=list[float])
    pod_seconds: float = 0.0
    busy_pods_stopped: int = 0
    items_interrupted: int = 0
    scalings: int = 0
    pods_started: int = 0


class World:
    """One queue with its pods. Time moves in :meth:`advance`."""

    def __init__(self, trace: Trace, pods: PodSettings, *, seed: int, victims: Victims) -> None:
        self.now = 0.0
        self.tally = Tally()
        self._trace = trace
        self._settings = pods
        self._victims = victims
        self._rng = random.Random(f"pods/{seed}")  # noqa: S311 - a simulation, no secret
        self._next = 0
        self._queue: deque[int] = deque()
        self._started: set[int] = set()
        self._pods: list[_Pod] = []
        self._idle: deque[_Pod] = deque()
        self._events: list[tuple[float, int, int, _Pod]] = []
        """(instant, number, item or what, pod); the number keeps events of one instant in order."""
        self._numbers = 0
        self._in_hand = 0
        self._done = 0

    @property
    def is_over(self) -> bool:
        """Whether every item has arrived and is done."""
        return self._next == len(self._trace.arrivals) and not self._queue and not self._in_hand

    @property
    def has_pods(self) -> bool:
        """Whether a pod is ordered."""
        return any(not pod.is_stopping for pod in self._pods)

    @property
    def has_waiting(self) -> bool:
        """Whether an item waits."""
        return bool(self._queue)

    def view(self) -> View:
        """What an autoscaler may know now."""
        pods = [pod for pod in self._pods if not pod.is_stopping]
        return View(
            now=self.now,
            waiting=len(self._queue),
            busy=self._in_hand,
            replicas=len(pods),
            ready=sum(pod.is_ready for pod in pods),
            busy_pods=sum(pod.busy > 0 for pod in pods),
            starting=tuple(self.now - pod.ordered_at for pod in pods if not pod.is_ready),
            oldest_age=self.now - self._trace.arrivals[self._queue[0]] if self._queue else None,
            enqueued=self._next,
            done=self._done,
        )

    def next_arrival(self) -> float | None:
        """When the next item arrives, for what is woken by a first item; None: no more items come."""
        return self._trace.arrivals[self._next] if self._next < len(self._trace.arrivals) else None

    def order(self, replicas: int) -> None:
        """Orders this number of pods from now on."""
        there = [pod for pod in self._pods if not pod.is_stopping]
        if replicas == len(there):
            return
        self.tally.scalings += 1
        for _ in range(replicas - len(there)):
            self._start_pod()
        if replicas < len(there):
            for pod in sorted(there, key=self._loss)[: len(there) - replicas]:
                self._stop_pod(pod)

    def advance(self, until: float) -> None:
        """Lets everything happen up to this instant."""
        arrivals, queue = self._trace.arrivals, self._queue
        count = len(arrivals)
        while True:
            arrival = arrivals[self._next] if self._next < count else float("inf")
            event = self._events[0][0] if self._events else float("inf")
            if min(arrival, event) > until:
                break
            if arrival <= event:
                self.now = arrival
                queue.append(self._next)
                self._next += 1
            else:
                self.now, _, what, pod = heapq.heappop(self._events)
                self._happen(what, pod)
            if queue and self._idle:
                self._hand_out()
        self.now = until

    def finish(self) -> Tally:
        """Ends the run: the pods that are left are paid for until now."""
        for pod in self._pods:
            self.tally.pod_seconds += self.now - pod.ordered_at
        self._pods = []
        return self.tally

    # Events ----------------------------------------------------------------------------------------------------

    _READY, _KILL = -1, -2

    def _happen(self, what: int, pod: _Pod) -> None:
        if what >= 0:
            self._finish_item(pod)
        elif what == self._READY:
            if not pod.is_stopping:
                pod.is_ready = True
                pod.free = self._settings.slots
                self._idle.extend([pod] * pod.free)
        elif pod.busy:
            self._kill(pod)

    def _push(self, at: float, what: int, pod: _Pod) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (at, self._numbers, what, pod))

    def _hand_out(self) -> None:
        """Workers that wait longest are served first, as the server serves those that wait for a wake token."""
        queue, idle, services = self._queue, self._idle, self._trace.services
        while queue and idle:
            pod = idle.popleft()
            if pod.is_stopping:
                continue
            item = queue.popleft()
            if item not in self._started:
                self._started.add(item)
                self.tally.waits.append(self.now - self._trace.arrivals[item])
            pod.free -= 1
            pod.busy += 1
            self._in_hand += 1
            self._push(self.now + services[item], item, pod)

    def _finish_item(self, pod: _Pod) -> None:
        if pod.busy == 0:
            return  # the pod was killed, and its items have gone back
        pod.busy -= 1
        self._in_hand -= 1
        self._done += 1
        if pod.is_stopping:
            if pod.busy == 0:
                self._remove(pod)
            return
        pod.free += 1
        self._idle.append(pod)

    def _start_pod(self) -> None:
        pod = _Pod(self.now, self.now + self._settings.draw_start(self._rng))
        self._pods.append(pod)
        self.tally.pods_started += 1
        self._push(pod.ready_at, self._READY, pod)

    def _loss(self, pod: _Pod) -> tuple[int, bool, float]:
        """What is lost with a pod; the least is taken away first."""
        if self._victims is Victims.IDLE:
            return pod.busy, pod.is_ready, -pod.ordered_at
        return 0, pod.is_ready, -pod.ready_at

    def _stop_pod(self, pod: _Pod) -> None:
        pod.is_stopping = True
        pod.free = 0
        if pod.busy:
            self.tally.busy_pods_stopped += 1
            self._push(self.now + self._settings.grace, self._KILL, pod)
        else:
            self._remove(pod)

    def _kill(self, pod: _Pod) -> None:
        """The grace is over: what the pod holds returns to the head of the queue and is done again from the
        start."""
        held = [item for _, _, item, its_pod in self._events if its_pod is pod and item >= 0]
        for item in sorted(held, reverse=True):
            self._queue.appendleft(item)
        self.tally.items_interrupted += len(held)
        self._in_hand -= pod.busy
        pod.busy = 0
        self._remove(pod)

    def _remove(self, pod: _Pod) -> None:
        self._pods.remove(pod)
        self.tally.pod_seconds += self.now - pod.ordered_at
