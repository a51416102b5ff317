"""Recent verdicts of this sidecar, to recognize repeated requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

REMEMBERED = 20_000
"""The number of verdicts to remember."""


class RecentVerdicts:
    """The verb and the verdict that ended each claim. Bounded: the oldest are forgotten first."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._verdicts: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def note(self, verb: str, verdicts: Iterable[tuple[str, str]]) -> None:
        """Remembers the server's verdicts on claims, by token."""
        for token, verdict in verdicts:
            self._verdicts[token] = verb, verdict
        while len(self._verdicts) > self._remembered:
            self._verdicts.popitem(last=False)

    def repeated(self, verb: str, tokens: Sequence[str]) -> dict[str, str]:
        """The verdicts of the claims among ``tokens`` that the same verb has ended."""
        return {
            token: earlier[1]
            for token in tokens
            if (earlier := self._verdicts.get(token)) is not None and earlier[0] == verb
        }
