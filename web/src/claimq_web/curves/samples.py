"""Samples of the queues over the last hours, in memory that is bounded by a number of bytes. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import NamedTuple

from claimq.model import Snapshot, State

SPAN = 6 * 3600.0
"""Seconds that the samples of a queue reach back."""
MOST_BYTES = 48 * 1024 * 1024
_MOST_SAMPLES, _LEAST_SAMPLES = 720, 16
_OVERHEAD = 1024
"""Bytes of a queue beside its samples: its name, the latest sample, the objects around them."""


class Sample(NamedTuple):
    """A queue at one instant: lengths, the age of the oldest waiting item in seconds, and totals."""

    at: float
    main: float
    busy: float
    delayed: float
    failed: float
    oldest_age: float
    enqueued_count: float
    claimed_count: float
    done_count: float
    failed_count: float
    is_paused: float


WIDTH = len(Sample._fields)


def sample_of(snapshot: Snapshot) -> Sample:
    """The sample of a snapshot."""
    lengths, counters = snapshot.lengths, snapshot.counters
    return Sample(
        at=snapshot.now,
        main=float(lengths[State.MAIN]),
        busy=float(lengths[State.BUSY]),
        delayed=float(lengths[State.DELAYED]),
        failed=float(lengths[State.FAILED]),
        oldest_age=snapshot.ages[State.MAIN] or 0.0,
        enqueued_count=float(counters["enqueued"]),
        claimed_count=float(counters["claimed"]),
        done_count=float(counters["done"]),
        failed_count=float(counters["failed"]),
        is_paused=float(snapshot.paused),
    )


class Ring:
    """The samples of one queue. When it is full it keeps every second one, until they reach back over SPAN."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.latest: Sample | None = None
        self.note = ""
        """What a user should know about the queue, in a word or two."""
        self._values = array("d")

    def __len__(self) -> int:
        return len(self._values) // WIDTH

    def add(self, sample: Sample) -> None:
        """Adds a sample. One that is earlier than the latest (a server with another clock) begins a new series."""
        if self.latest is not None and sample.at < self.latest.at:
            self._values = array("d")
        self.latest = sample
        if not len(self) or sample.at - self._values[-WIDTH] >= self._step():
            self._values.extend(sample)
            self.fit(self.capacity)

    def fit(self, capacity: int) -> None:
        """Changes the capacity and removes samples that are too many."""
        self.capacity = capacity
        while len(self) > capacity:
            if self._values[-WIDTH] - self._values[0] > SPAN:
                del self._values[:WIDTH]
            else:
                self._values = _every_second(self._values)

    def samples(self) -> list[Sample]:
        """The samples in the order of time; the last one is the latest."""
        samples = [Sample(*self._values[n : n + WIDTH]) for n in range(0, len(self._values), WIDTH)]
        if self.latest is not None and self.latest != samples[-1]:
            samples.append(self.latest)
        return samples

    def _step(self) -> float:
        """Seconds between two samples: as they come while they reach back less far than the ring can, then evenly."""
        reach = self._values[-WIDTH] - self._values[0]
        return 0.0 if len(self) < self.capacity // 2 else min(reach, SPAN) / self.capacity


def _every_second(values: array[float]) -> array[float]:
    """Every second sample, with the newest one."""
    count = len(values) // WIDTH
    kept = array("d")
    for n in range(1 - count % 2, count, 2):
        kept.extend(values[n * WIDTH : (n + 1) * WIDTH])
    return kept


class Samples:
    """The rings of all queues, within ``most_bytes``."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._rings: dict[str, Ring] = {}

    @property
    def most_queues(self) -> int:
        """How many queues can have samples."""
        return self._most_bytes // (_LEAST_SAMPLES * WIDTH * 8 + _OVERHEAD)

    @property
    def names(self) -> Collection[str]:
        """The queues that have samples."""
        return self._rings.keys()

    def ring(self, name: str) -> Ring | None:
        """The samples of a queue; None if it has none."""
        return self._rings.get(name)

    def keep_only(self, names: Collection[str]) -> None:
        """Removes the samples of all other queues, and gives each of these the same share of the memory."""
        for name in [name for name in self._rings if name not in names]:
            del self._rings[name]
        capacity = self._capacity(len(names))
        for ring in self._rings.values():
            ring.fit(capacity)

    def add(self, name: str, sample: Sample, note: str = "") -> None:
        """Adds a sample and sets the note, unless the memory is full and the queue is new."""
        ring = self._rings.get(name)
        if ring is None:
            if len(self._rings) >= self.most_queues:
                return
            ring = self._rings[name] = Ring(self._capacity(len(self._rings) + 1))
        ring.add(sample)
        ring.note = note

    def _capacity(self, queues: int) -> int:
        bytes_of_queue = self._most_bytes // max(1, queues) - _OVERHEAD
        return max(_LEAST_SAMPLES, min(_MOST_SAMPLES, bytes_of_queue // (WIDTH * 8)))


def recent(samples: Sequence[Sample]) -> tuple[Sample, Sample] | None:
    """The latest sample and the last one before it by at least a minute, or the first. None for one alone."""
    if len(samples) < 2:
        return None
    latest = samples[-1]
    earlier = (sample for sample in reversed(samples[:-1]) if latest.at - sample.at >= 60.0)
    return next(earlier, samples[0]), latest


def per_second(earlier: Sample, later: Sample, counter: str) -> float:
    """How fast a total grew between two samples; 0 for a total that began again."""
    seconds = later.at - earlier.at
    grown = float(getattr(later, counter) - getattr(earlier, counter))
    return max(grown, 0.0) / seconds if seconds > 0 else 0.0


def mean_seconds(samples: Sequence[Sample], length: str) -> float | None:
    """Mean seconds that items stayed in a state, by Little's law: the mean length over the rate of the items that
    left it. None if none did.
    """
    weighted = 0.0
    for earlier, later in pairwise(samples):
        weighted += (getattr(earlier, length) + getattr(later, length)) / 2 * (later.at - earlier.at)
    growth = samples[-1].claimed_count - samples[0].claimed_count if samples else 0.0
    return float(weighted / growth) if growth > 0 else None
