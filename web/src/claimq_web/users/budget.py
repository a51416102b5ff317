"""How often something may happen: a number at once, and then so many a second. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Times per second, and how many of them may come at once."""

    per_second: float
    at_once: int


@dataclass(slots=True)
class Budget:
    """What is left of a rate at an instant."""

    rate: Rate
    left: float
    at: float

    @classmethod
    def full(cls, rate: Rate, now: float) -> Budget:
        """A budget of which nothing is used."""
        return cls(rate, rate.at_once, now)

    def seconds_to_wait(self, now: float) -> float:
        """Seconds until one more is allowed; 0 if it is now."""
        self.left = min(self.left + (now - self.at) * self.rate.per_second, self.rate.at_once)
        self.at = now
        return max((1.0 - self.left) / self.rate.per_second, 0.0)
