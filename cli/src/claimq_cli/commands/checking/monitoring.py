"""Results of `claimq check` in the form of a monitoring plugin (Nagios, Icinga): one line and an exit code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from claimq.model import Snapshot, State
from claimq_admin.escaping import safe
from claimq_admin.text import age, count


class Result(IntEnum):
    """The result of a check; its number is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


WORST_FIRST = (Result.CRITICAL, Result.WARNING, Result.UNKNOWN, Result.OK)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """A value above ``warn`` is a warning, one above ``crit`` is critical; None is no threshold."""

    warn: float | None = None
    crit: float | None = None

    @property
    def are_set(self) -> bool:
        """Whether there is any threshold."""
        return self.warn is not None or self.crit is not None

    def exceeded(self, measured: float) -> tuple[Result, float] | None:
        """The result for a value that is above a threshold, and this threshold."""
        if self.crit is not None and measured > self.crit:
            return Result.CRITICAL, self.crit
        if self.warn is not None and measured > self.warn:
            return Result.WARNING, self.warn
        return None


@dataclass(frozen=True, slots=True)
class Measure:
    """One measured value. ``summary`` is the text for people; without one the value is only in the performance
    data. ``shown`` is a threshold as text."""

    label: str
    value: float
    summary: str = ""
    thresholds: Thresholds = Thresholds()
    unit: str = ""
    highest: float | None = None
    shown: Callable[[float], str] = lambda value: f"{value:,.0f}"

    @property
    def result(self) -> Result:
        """The result for this value alone."""
        exceeded = self.thresholds.exceeded(self.value)
        return Result.OK if exceeded is None else exceeded[0]

    @property
    def text(self) -> str:
        """The text for people, with the threshold that is exceeded."""
        exceeded = self.thresholds.exceeded(self.value)
        return self.summary if exceeded is None else f"{self.summary} (above {self.shown(exceeded[1])})"

    @property
    def performance(self) -> str:
        """``label=value;warn;crit;lowest;highest``, in the form for performance data of monitoring plugins."""
        limits = (self.thresholds.warn, self.thresholds.crit, 0.0, self.highest)
        words = ["" if limit is None else _number(limit) for limit in limits]
        return f"{self.label}={_number(self.value)}{self.unit};{';'.join(words)}".rstrip(";")


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check with its text, and what was measured."""

    result: Result
    text: str
    measures: tuple[Measure, ...] = ()

    @property
    def line(self) -> str:
        """``RESULT - text | performance data``. The text has no '|', which would begin the performance data."""
        line = f"{self.result.name} - {safe(self.text).replace('|', '/')}"
        return (
            f"{line} | {' '.join(measure.performance for measure in self.measures)}"
            if self.measures
            else line
        )


def measures_of(
    snapshot: Snapshot, memory_share: float | None, limits: Mapping[str, Thresholds]
) -> tuple[Measure, ...]:
    """What is measured of a queue. ``limits``: thresholds by the names of the options (length, age, failed, memory).

    ``memory_share`` is None if it was not measured.
    """
    lengths = snapshot.lengths
    oldest = snapshot.ages[State.MAIN]
    measures = [
        Measure("main", lengths[State.MAIN], f"{count(lengths[State.MAIN])} in main", limits["length"]),
        Measure("busy", lengths[State.BUSY]),
        Measure("delayed", lengths[State.DELAYED]),
        Measure("failed", lengths[State.FAILED], f"{lengths[State.FAILED]:,} failed", limits["failed"]),
        Measure(
            "age",
            oldest or 0.0,
            "" if oldest is None else f"oldest {age(oldest)}",
            limits["age"],
            "s",
            shown=age,
        ),
    ]
    if memory_share is not None:
        percent = memory_share * 100
        summary = f"{percent:.0f}% of maxmemory used"
        measures.append(
            Measure(
                "memory",
                percent,
                summary,
                limits["memory"],
                "%",
                100.0,
                lambda percentage: f"{percentage:g}%",
            )
        )
    return tuple(measures)


def finding_of(
    queue: str,
    measures: tuple[Measure, ...],
    *,
    notes: Iterable[str],
    missing: str,
    attention: str,
    stuck: str,
) -> Finding:
    """The worst result of all measures. ``missing`` names what could not be measured, which is UNKNOWN; ``attention``
    is a WARNING; ``stuck``, that the queue makes no progress, is CRITICAL."""
    results = {measure.result for measure in measures} | ({Result.UNKNOWN} if missing else {Result.OK})
    results |= ({Result.WARNING} if attention else set()) | ({Result.CRITICAL} if stuck else set())
    worst = next(candidate for candidate in WORST_FIRST if candidate in results)
    words = [*(measure.text for measure in measures), *notes, missing, attention, stuck]
    return Finding(worst, f"{queue}: {', '.join(filter(None, words))}", measures)


def _number(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".")
