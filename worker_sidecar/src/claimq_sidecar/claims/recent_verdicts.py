"""Recent verdicts of this sidecar, to recognize repeated requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from claimq.model import Verdict

REMEMBERED = 20_000
"""The number of verdicts to remember at least; there may be twice as many."""


class RecentVerdicts:
    """The verb and the verdict that ended each claim. Bounded: the oldest are forgotten first, many at once."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._recent: dict[str, tuple[str, Verdict]] = {}
        self._older: dict[str, tuple[str, Verdict]] = {}

    def __len__(self) -> int:
        return len(self._recent) + len(self._older)

    def note(self, verb: str, verdicts: Mapping[str, Verdict]) -> None:
        """Remembers the server's verdicts on claims, by token."""
        known = {verdict: (verb, verdict) for verdict in set(verdicts.values())}
        self._recent.update({token: known[verdict] for token, verdict in verdicts.items()})
        if len(self._recent) >= self._remembered:
            self._recent, self._older = {}, self._recent

    def repeated(self, verb: str, tokens: Sequence[str]) -> dict[str, Verdict]:
        """The verdicts of the claims among ``tokens`` that the same verb has ended."""
        return {
            token: earlier[1]
            for token in tokens
            if (earlier := self._recent.get(token) or self._older.get(token)) and earlier[0] == verb
        }
