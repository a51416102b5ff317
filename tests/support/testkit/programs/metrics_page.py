"""A page of Prometheus metrics as numbers: totals, and what happened between two looks at it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

_INFINITE = math.inf


@dataclass(frozen=True)
class Histogram:
    """How many of something were at most so large: upper bound to count, the last bound infinite."""

    at_most: Mapping[float, float]
    sum: float

    @property
    def count(self) -> float:
        return self.at_most.get(_INFINITE, 0.0)

    @property
    def mean(self) -> float:
        """NaN when there is nothing in it."""
        return self.sum / self.count if self.count else math.nan

    def since(self, earlier: "Histogram") -> "Histogram":
        """Only what came after the other was read."""
        later = {bound: count - earlier.at_most.get(bound, 0.0) for bound, count in self.at_most.items()}
        return Histogram(later, self.sum - earlier.sum)

    def quantile(self, share: float) -> float:
        """As Prometheus reckons it: evenly spread within a bucket. The last finite bound when it is beyond; NaN of
        nothing."""
        if not self.count:
            return math.nan
        wanted, below, counted = self.count * share, 0.0, 0.0
        for bound, count in sorted(self.at_most.items()):
            if count >= wanted and count > counted:
                if bound == _INFINITE:
                    return below
                return below + (bound - below) * (wanted - counted) / (count - counted)
            below, counted = bound, count
        return below

    def highest(self) -> float:
        """The bound that none of them passed; infinite if one passed every finite one, NaN of nothing."""
        bounds = [bound for bound, count in sorted(self.at_most.items()) if count >= self.count]
        return bounds[0] if self.count else math.nan


class MetricsPage:
    """One look at a page."""

    def __init__(self, text: str) -> None:
        self._samples = [one for family in text_string_to_metric_families(text) for one in family.samples]

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series of that name with these labels; 0 if there is none."""
        return sum(
            one.value for one in self._samples if one.name == name and labels.items() <= one.labels.items()
        )

    def histogram(self, name: str) -> Histogram:
        """The histogram of that name, all its series together."""
        at_most: dict[float, float] = {}
        for one in self._samples:
            if one.name == f"{name}_bucket":
                bound = float(one.labels["le"])
                at_most[bound] = at_most.get(bound, 0.0) + one.value
        return Histogram(at_most, self.total(f"{name}_sum"))
