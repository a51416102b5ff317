"""Walks through the failed items of a queue, oldest failure first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from claimq.arguments import Duration, choice, count, optional_count, optional_seconds
from claimq.model import Located
from claimq.policy import FailedPolicy, Match
from claimq.queue.token_groups import BATCH


@dataclass(slots=True)
class Walk:
    """A walk through failed, oldest failure first: its position and its results."""

    moved: int = 0
    looked_at: int = 0
    place: tuple[str, int] = ("-inf", 0)
    until: int | str = ""
    log: list[Located] = field(default_factory=list[Located])

    def next_size(self, chunk: int, limit: int | None) -> int:
        """Size of the next chunk; 0 if the walk has reached its limit."""
        return chunk if limit is None else max(min(chunk, limit - self.moved), 0)

    def note_reply(self, words: Sequence[str], min_age: float) -> bool:
        """Stores the script's reply for a chunk; False if it was the last one."""
        moved, looked, now = map(int, words[:3])
        self.moved, self.looked_at = self.moved + moved, self.looked_at + looked
        self.place = (words[3], int(words[4]))
        self.until = self.until or now - round(min_age * 1000)  # items that fail from now on stay
        return words[5] == "1"


def _walks(min_age: float | None, min_given_up_count: int | None, match: Match) -> list[tuple[float, int]]:
    """The walks (age, count) that together meet exactly what the filters choose.

    What is old enough failed before all that is not: so the first of two walks takes the older ones, and oldest
    first holds over both.
    """
    if match is Match.EITHER and min_age is not None and min_given_up_count is not None:
        return [(min_age, 0), (0.0, min_given_up_count)]
    return [(min_age or 0.0, min_given_up_count or 0)]


def filtered_walks(
    min_age: Duration | None, min_given_up_count: int | None, match: Match | str
) -> list[tuple[float, int]]:
    """The walks for the filters of a caller. Raises TypeError or ValueError that names the filter."""
    least = optional_count("min_given_up_count", min_given_up_count)
    return _walks(optional_seconds("min_age", min_age), least, choice("match", match, Match))


def policy_walks(failed: FailedPolicy) -> list[tuple[float, int]]:
    """The walks that remove what the policy does not keep."""
    if failed.remove_min_age is None and failed.remove_min_given_up_count is None:
        return []
    return _walks(failed.remove_min_age, failed.remove_min_given_up_count, failed.remove_match)


def checked_chunk(chunk: int) -> int:
    """The number of items that a call looks at. Raises TypeError or ValueError."""
    return count("chunk", chunk, least=1, most=BATCH)


def rest_of(limit: int | None, moved: int = 0) -> int | None:
    """How many more items a caller's limit allows. Raises TypeError or ValueError."""
    return None if limit is None else count("limit", limit) - moved
