"""The items of a worker that have no verdict yet."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Generic

from claimq.model import Outcome, Verdict
from claimq.worker.item import AnyItem

_log = logging.getLogger("claimq.worker")


class InFlight(Generic[AnyItem]):
    """By token, in the order of claiming. Any thread may call its methods.

    Without a lock: each change of a dictionary is atomic, and copies are made by one call.
    """

    def __init__(self) -> None:
        self._items: dict[str, AnyItem] = {}
        self._ending: dict[str, bool] = {}
        """Tokens with a verdict under way, and whether the sidecar has reported them as lost since it began."""

    def items(self) -> list[AnyItem]:
        """The items, without those whose verdict is under way."""
        return [item for item in list(self._items.values()) if not item.is_ending]

    def tokens(self) -> list[str]:
        """The tokens of the claims to keep: without those that the program has not begun, which have permits."""
        return [token for token, item in list(self._items.items()) if item.is_begun or not item.permit]

    def discard(self, items: Iterable[AnyItem]) -> None:
        """The sidecar has taken these back."""
        for item in items:
            self._items.pop(item.token, None)

    def add(self, items: Iterable[AnyItem]) -> None:
        """These were claimed."""
        self._items.update((item.token, item) for item in items)

    def note_outcomes(self, outcomes: list[Outcome]) -> list[Outcome]:
        """These have their outcome now, which is kept with each item."""
        for outcome in outcomes:
            item = self._items.pop(outcome.token, None)
            if item is not None:
                item.outcome = outcome
        return outcomes

    @contextmanager
    def ending(self, tokens: list[str]) -> Generator[None]:
        """A verdict on these is under way. A sidecar that came back may not hold them because it has applied that
        verdict, so the reply decides; they are lost only if there is none.
        """
        self._ending.update(dict.fromkeys(tokens, False))
        try:
            yield
        finally:
            self.note_lost([token for token in tokens if self._ending.pop(token, False)])

    def note_lost(self, tokens: Iterable[str]) -> None:
        """The sidecar does not hold these any more."""
        for token in tokens:
            if token in self._ending:
                self._ending[token] = True
                continue
            item = self._items.pop(token, None)
            if item is not None:
                item.outcome = Outcome(token, Verdict.LOST)
                _log.warning("item %s was lost; another worker has it or will, or it was removed", item.id)
