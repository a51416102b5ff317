"""Recent verdicts of this sidecar, to recognize repeated requests."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain

from claimq.model import Verdict

REMEMBERED = 20_000
"""The number of verdicts to remember at least; there may be twice as many."""
_ENDING_BITS = 6
_TOKEN_MASK = (1 << 64 - _ENDING_BITS) - 1


class RecentVerdicts:
    """The verb and the verdict that ended each claim. Bounded: the oldest are forgotten first, many at once.

    Each is one number: a hash of the token, and in the lowest bits how it ended. The tokens themselves would take
    8 MB. A repeated request is rare, so it may search all of them, which takes some milliseconds.
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._endings: dict[tuple[str, Verdict], int] = {}
        self._recent = array("Q")
        self._older = array("Q")

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def note(self, verb: str, verdicts: Mapping[str, Verdict]) -> None:
        """Remembers the server's verdicts on claims, by token."""
        endings = {
            verdict: self._endings.setdefault((verb, verdict), len(self._endings))
            for verdict in set(verdicts.values())
        }
        self._recent.extend(
            [
                (hash(token) & _TOKEN_MASK) << _ENDING_BITS | endings[verdict]
                for token, verdict in verdicts.items()
            ]
        )
        if len(self._recent) >= self._remembered:
            self._recent, self._older = array("Q"), self._recent

    def repeated(self, verb: str, tokens: Sequence[str]) -> dict[str, Verdict]:
        """The verdicts of the claims among ``tokens`` that the same verb has ended."""
        if not tokens:
            return {}
        by_hash = {hash(token) & _TOKEN_MASK: token for token in tokens}
        newest: dict[str, int] = {}
        for number in chain(self._older, self._recent):
            if (token := by_hash.get(number >> _ENDING_BITS)) is not None:
                newest[token] = number & (1 << _ENDING_BITS) - 1
        endings = list(self._endings)
        return {
            token: endings[newest[token]][1]
            for token in tokens
            if token in newest and endings[newest[token]][0] == verb
        }
