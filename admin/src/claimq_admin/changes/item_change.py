"""What a user does to items, and how far a change of many items has come. Pure."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from claimq.model import Located, State
from claimq_process.duration import format_duration

PAST = {
    "cancel": "cancelled",
    "remove": "removed",
    "run-now": "run_now",
    "requeue": "requeued",
    "move": "moved",
}
"""What can be done to an item, and what it is afterwards."""
CHANGEABLE = {"waiting": State.MAIN, "delayed": State.DELAYED, "failed": State.FAILED}
"""The states whose items can be changed together, by the name of their page."""


@dataclass(frozen=True, slots=True)
class ItemChange:
    """``because``: the error to record with an item that is cancelled. ``delay``: of one that is requeued by its id, in
    seconds. Raises ValueError for an unknown action."""

    action: str
    because: str = "cancelled by hand"
    delay: float | None = None

    def __post_init__(self) -> None:
        if self.action not in PAST:
            raise ValueError(f"there is no such action; write one of {', '.join(PAST)}")

    def fields(self) -> dict[str, str]:
        """The fields of a form with this change."""
        delay = {} if self.delay is None else {"delay": format_duration(self.delay)}
        return {"action": self.action, "because": self.because, **delay}


@dataclass(kw_only=True)
class Selected(ABC):
    """Items of a state that pass a filter. The counts grow as they are changed: ``looked_at`` items of ``total``, of
    which ``matched`` passed and ``changed`` were changed. ``problems``: why others were not, the first 1,000.
    ``samples``: the first that :meth:`count` has found. ``note`` is called after each step."""

    total: int = 0
    looked_at: int = 0
    matched: int = 0
    changed: int = 0
    problem_count: int = 0
    samples: list[Located] = field(default_factory=list[Located])
    problems: list[str] = field(default_factory=list[str])
    note: Callable[[], object] = field(default=lambda: None)

    @abstractmethod
    async def count(self, stop: asyncio.Event) -> None:
        """The dry run: counts the items, and keeps the first ones as ``samples``, fewer if they are large."""

    @abstractmethod
    async def run(self, change: ItemChange, stop: asyncio.Event) -> None:
        """Changes the items until the event is set. Records it at the beginning, and at the end with the number of
        changed items. ValueError if items of this state cannot be changed so."""

    @abstractmethod
    async def run_on(self, names: Iterable[str], change: ItemChange) -> list[str]:
        """Changes the failed items of these ids; returns those that are not in failed."""
