"""The verdicts of this sidecar that repeated requests are compared with."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

REMEMBERED = 20_000
"""Verdicts that are remembered, so that a repeated one is answered truthfully."""


class RecentVerdicts:
    """What this sidecar has lately settled: token to verb and verdict, bounded; the oldest are forgotten first."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._verdicts: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def note(self, token: str, verb: str, verdict: str) -> None:
        """The store has said ``verdict`` to ``verb`` on this claim."""
        self._verdicts[token] = verb, verdict
        while len(self._verdicts) > self._remembered:
            self._verdicts.popitem(last=False)

    def repeated(self, verb: str, tokens: Sequence[str]) -> dict[str, str]:
        """The tokens on which the same verb has had its effect already, each with the verdict of then."""
        known: dict[str, str] = {}
        for token in tokens:
            earlier = self._verdicts.get(token)
            if earlier is not None and earlier[0] == verb:
                known[token] = earlier[1]
        return known
