"""The simulated queue and its worker pods.

Items arrive, wait in order and are processed; pods start, crash and stop. An autoscaler sees :class:`View` and calls
:meth:`World.order`. It never sees items that have not arrived yet. Time is counted in milliseconds. Between two orders
the pods are the same, so an item costs one heap operation: the slot that is free first starts the oldest item.
"""

from __future__ import annotations

import heapq
import random
from array import array
from bisect import bisect_right, insort
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from claimq.limits import LimitsNow
from claimq_bench.simulation.traces import Trace

TICKS = 1000
"""Ticks per second."""
SLOT_BITS = 24
SLOT_MASK = (1 << SLOT_BITS) - 1
"""A slot in the heap is one number: when it is free, in ticks, and its number in the lowest bits."""


class Victims(StrEnum):
    """Which pods a scale-down removes: claimq removes starting and idle ones, a plain Deployment the newest."""

    IDLE = "idle"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class PodSettings:
    """``start``: typical seconds from the order of a pod to its first claim. ``slots``: items a pod works
    on at once. ``grace``: seconds that a stopped pod may go on with its items before they return to the
    queue. ``crash_every``: mean seconds of a pod between two crashes (None: it never crashes); a crashed
    pod starts again, and its items return after ``expiry`` seconds."""

    start: float = 8.0
    slots: int = 1
    grace: float = 30.0
    crash_every: float | None = None
    expiry: float = 30.0

    def draw_start(self, rng: random.Random) -> float:
        """0.75 to 1.25 times ``start``, and an exponential tail (a slow node, a cold image layer)."""
        return self.start * (rng.uniform(0.75, 1.25) + rng.expovariate(1.0) * 0.1)


@dataclass(slots=True, eq=False)
class _Pod:
    """Times in ticks. ``slots``: the numbers of its slots."""

    ordered_at: int
    ready_at: int
    slots: range


class View(Protocol):
    """What an autoscaler can observe of the queue and the pods at one moment."""

    @property
    def now(self) -> float:
        """Seconds since the start."""
        ...

    @property
    def waiting(self) -> int:
        """Items in main."""
        ...

    @property
    def busy(self) -> int:
        """Items in progress, or held by a pod that crashed and not yet returned."""
        ...

    @property
    def replicas(self) -> int:
        """Pods that are ordered and not stopping."""
        ...

    @property
    def ready(self) -> int:
        """Pods that can claim."""
        ...

    @property
    def busy_pods(self) -> int:
        """Pods that hold an item."""
        ...

    @property
    def starting(self) -> tuple[float, ...]:
        """How long ago each of the starting pods was ordered."""
        ...

    @property
    def oldest_age(self) -> float | None:
        """Seconds since the oldest waiting item last came into the queue."""
        ...

    @property
    def claimed(self) -> int:
        """Claims so far; an item that returned to the queue is claimed again."""
        ...

    @property
    def limits(self) -> LimitsNow | None:
        """The limits of the queue that hold, and what they let start."""
        ...


@dataclass(slots=True)
class Tally:
    """The totals of one run. ``waits``: ticks until each item was first started."""

    waits: array[int] = field(default_factory=lambda: array("q"))
    pod_ticks: int = 0
    busy_pods_stopped: int = 0
    items_interrupted: int = 0
    crashes: int = 0
    scalings: int = 0
    pods_started: int = 0


class World:
    """One queue with its pods. Time moves in :meth:`advance`."""

    def __init__(self, trace: Trace, pods: PodSettings, *, seed: int, victims: Victims) -> None:
        self.tally = Tally()
        self._arrivals, self._services = trace.ticks
        self._settings = pods
        self._victims = victims
        self._rng = random.Random(f"pods/{seed}")
        self._now = 0
        self._next = 0
        """The oldest item that has not been started."""
        self._returned: list[tuple[int, int]] = []
        """(when it comes back, item) of items whose pod was killed or crashed; they go to the head."""
        self._claimed = 0
        self._pods: list[_Pod] = []
        self._starting: list[_Pod] = []
        self._free: list[int] = []
        """A heap of the slots of all pods that are not stopping, by when they are free."""
        self._item_of: list[int] = []
        """The item that a slot, by its number, took last."""
        self._leaving: list[int] = []
        """When each slot of a stopping pod ends its item, or loses it."""
        self._crashes: list[tuple[int, int, _Pod]] = []

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self._now / TICKS

    @property
    def waiting(self) -> int:
        """Items in main."""
        arrived = bisect_right(self._arrivals, self._now, self._next) - self._next
        return arrived + sum(at <= self._now for at, _ in self._returned)

    @property
    def busy(self) -> int:
        """Items in progress, or held by a pod that crashed and not yet returned."""
        self._leaving = [end for end in self._leaving if end > self._now]
        held = sum(at > self._now for at, _ in self._returned)
        return len(self._busy_slots()) + len(self._leaving) + held

    @property
    def replicas(self) -> int:
        """Pods that are ordered and not stopping."""
        return len(self._pods)

    @property
    def ready(self) -> int:
        """Pods that can claim."""
        self._starting = [pod for pod in self._starting if pod.ready_at > self._now]
        return len(self._pods) - len(self._starting)

    @property
    def busy_pods(self) -> int:
        """Pods that hold an item."""
        return len({slot // self._settings.slots for slot in self._busy_slots()})

    @property
    def starting(self) -> tuple[float, ...]:
        """How long ago each of the starting pods was ordered."""
        now = self._now
        return tuple((now - pod.ordered_at) / TICKS for pod in self._starting if pod.ready_at > now)

    @property
    def oldest_age(self) -> float | None:
        """Seconds since the oldest waiting item last came into the queue."""
        back = [at for at, _ in self._returned[:1] if at <= self._now]
        came = min([*self._arrivals[self._next : self._next + 1], *back], default=self._now + 1)
        return (self._now - came) / TICKS if came <= self._now else None

    @property
    def claimed(self) -> int:
        """Claims so far; an item that returned to the queue is claimed again."""
        return self._claimed

    @property
    def limits(self) -> LimitsNow | None:
        """The limits of the queue that hold: none."""
        return None

    @property
    def is_over(self) -> bool:
        """Whether every item has arrived and is done."""
        return self._next == len(self._arrivals) and not self._returned and not self.busy

    def next_arrival(self) -> float | None:
        """When the next item arrives, for scalers that a first item wakes; None: no more items arrive."""
        return self._arrivals[self._next] / TICKS if self._next < len(self._arrivals) else None

    def order(self, replicas: int) -> None:
        """Orders this number of pods from now on."""
        there = len(self._pods)
        if replicas == there:
            return
        self.tally.scalings += 1
        for _ in range(replicas - there):
            self._start_pod()
        if replicas < there:
            busy = self._busy_slots()
            order = sorted(self._pods, key=lambda pod: self._loss(pod, busy))
            self._stop_pods(order[: there - replicas], busy)

    def advance(self, until: float) -> None:
        """Simulates everything up to this instant."""
        end = round(until * TICKS)
        while self._crashes and self._crashes[0][0] <= end:
            at, _, pod = heapq.heappop(self._crashes)
            self._work(at)
            self._now = at
            if pod in self._pods:
                self._crash(pod)
        self._work(end)
        self._now = end

    def finish(self) -> Tally:
        """Ends the run: counts the time of the remaining pods up to now."""
        for pod in self._pods:
            self.tally.pod_ticks += self._now - pod.ordered_at
        self._pods = []
        return self.tally

    # The queue ---------------------------------------------------------------------------------------------------

    def _work(self, until: int) -> None:
        """Slots that are free take the oldest items, up to this tick."""
        free, arrivals, services, item_of = self._free, self._arrivals, self._services, self._item_of
        if not free:
            return
        waits, item, count, began = self.tally.waits, self._next, len(arrivals), self._next
        replace = heapq.heapreplace
        while item < count:
            if self._returned and self._took_returned(until, arrivals[item]):
                continue
            first, came = free[0], arrivals[item]
            start = first >> SLOT_BITS
            if start < came:
                start = came
            if start > until:
                break
            slot = first & SLOT_MASK
            replace(free, ((start + services[item]) << SLOT_BITS) | slot)
            item_of[slot] = item
            waits.append(start - came)
            item += 1
        self._next = item
        self._claimed += item - began
        while self._returned and self._took_returned(until, None):
            pass

    def _took_returned(self, until: int, came: int | None) -> bool:
        """Whether the slot that is free first takes a returned item rather than the one that ``came``."""
        back, item = self._returned[0]
        start = max(self._free[0] >> SLOT_BITS, back)
        if start > until or (came is not None and start > max(self._free[0] >> SLOT_BITS, came)):
            return False
        slot = self._free[0] & SLOT_MASK
        heapq.heapreplace(self._free, ((start + self._services[item]) << SLOT_BITS) | slot)
        self._item_of[slot] = item
        self._returned.pop(0)
        self._claimed += 1
        return True

    def _busy_slots(self) -> list[int]:
        """Slots of pods that are not stopping that work on an item."""
        least = (self._now + 1) << SLOT_BITS
        slots = [one & SLOT_MASK for one in self._free if one >= least]
        starting = [pod for pod in self._starting if pod.ready_at > self._now]
        if starting:
            not_yet = {slot for pod in starting for slot in pod.slots}
            slots = [slot for slot in slots if slot not in not_yet]
        return slots

    # The pods ----------------------------------------------------------------------------------------------------

    def _start_pod(self) -> None:
        settings, first = self._settings, len(self._item_of)
        ready_at = self._now + round(settings.draw_start(self._rng) * TICKS)
        pod = _Pod(self._now, ready_at, range(first, first + settings.slots))
        self._item_of += [-1] * settings.slots
        self._pods.append(pod)
        self._starting.append(pod)
        self.tally.pods_started += 1
        for slot in pod.slots:
            heapq.heappush(self._free, (ready_at << SLOT_BITS) | slot)
        self._plan_crash(pod)

    def _plan_crash(self, pod: _Pod) -> None:
        if self._settings.crash_every is not None:
            lives = self._rng.expovariate(1 / self._settings.crash_every)
            at = pod.ready_at + round(lives * TICKS)
            heapq.heappush(self._crashes, (at, pod.slots.start, pod))

    def _crash(self, pod: _Pod) -> None:
        """The pod loses its items, which return when their leases expire, and starts again."""
        self.tally.crashes += 1
        back = self._now + round(self._settings.expiry * TICKS)
        for slot in self._take_slots([pod]):
            if slot >> SLOT_BITS > self._now:
                insort(self._returned, (back, self._item_of[slot & SLOT_MASK]))
                self.tally.items_interrupted += 1
        pod.ready_at = self._now + round(self._settings.draw_start(self._rng) * TICKS)
        self._starting = [*(one for one in self._starting if one is not pod), pod]
        for slot in pod.slots:
            heapq.heappush(self._free, (pod.ready_at << SLOT_BITS) | slot)
        self._plan_crash(pod)

    def _loss(self, pod: _Pod, busy: list[int]) -> tuple[int, bool, int]:
        """A sort key for the removal of pods: those that lose least come first."""
        is_ready = pod.ready_at <= self._now
        if self._victims is Victims.IDLE:
            return sum(slot in pod.slots for slot in busy), is_ready, -pod.ordered_at
        return 0, is_ready, -pod.ready_at

    def _stop_pods(self, pods: list[_Pod], busy: list[int]) -> None:
        """Stops the pods: they take no more items, and return those that they cannot finish within the grace period."""
        now, ends = self._now, dict.fromkeys(pods, self._now)
        killed = now + round(self._settings.grace * TICKS)
        working, owner = set(busy), {slot: pod for pod in pods for slot in pod.slots}
        for one in self._take_slots(pods):
            slot = one & SLOT_MASK
            if slot in working:
                ends[owner[slot]] = max(ends[owner[slot]], min(one >> SLOT_BITS, killed))
                if one >> SLOT_BITS <= killed:
                    self._leaving.append(one >> SLOT_BITS)
                else:
                    self.tally.items_interrupted += 1
                    insort(self._returned, (killed, self._item_of[slot]))
        stopping = set(pods)
        self._pods = [pod for pod in self._pods if pod not in stopping]
        self._starting = [pod for pod in self._starting if pod not in stopping]
        for pod, end in ends.items():
            self.tally.busy_pods_stopped += end > now
            self.tally.pod_ticks += end - pod.ordered_at

    def _take_slots(self, pods: list[_Pod]) -> list[int]:
        """Removes the slots of these pods from the heap, and returns them."""
        numbers = {slot for pod in pods for slot in pod.slots}
        taken = [one for one in self._free if one & SLOT_MASK in numbers]
        self._free = [one for one in self._free if one & SLOT_MASK not in numbers]
        heapq.heapify(self._free)
        return taken
