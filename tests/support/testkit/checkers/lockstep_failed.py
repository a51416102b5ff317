"""The part of lockstep that is about failed items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import claimq
from claimq.policy import Match
from testkit.checkers.model import QueueModel

T = TypeVar("T")


@dataclass(frozen=True)
class Filters:
    """Which failed items are removed or drained. Ages in ms."""

    min_age: int | None
    least: int | None
    limit: int | None
    either: bool

    def words(self) -> dict[str, Any]:
        """As the library takes them."""
        age = None if self.min_age is None else self.min_age / 1000
        match = Match.EITHER if self.either else Match.BOTH
        return {"min_age": age, "min_given_up_count": self.least, "limit": self.limit, "match": match}

    def of(self, model: QueueModel) -> list[str]:
        """What the model removes."""
        return model.remove_failed(self.min_age, self.least, self.limit, either=self.either)


class FailedItemsWorld(ABC):
    """Operations on failed items, made on the server and on the model."""

    models: dict[str, QueueModel]

    @abstractmethod
    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs it, and what it leaves to do in the background."""

    @abstractmethod
    def queue(self, name: str, worker: str = "w1") -> claimq.ReliableQueue:
        """The queue as one of the workers has it."""

    def requeue_failed(
        self, name: str, most: int | None, min_age: int, limit: int | None, chunk: int
    ) -> None:
        """By filters."""
        moved = self.run(
            self.queue(name).requeue_failed(
                max_given_up_count=most, min_age=min_age / 1000, limit=limit, chunk=chunk
            )
        )
        assert moved == self.models[name].requeue_failed(min_age, most, limit)

    def remove_failed(self, name: str, filters: Filters, chunk: int, log: int) -> None:
        """By filters, with a log."""
        removed = self.run(self.queue(name).remove_failed(**filters.words(), chunk=chunk, log_limit=log))
        expected = filters.of(self.models[name])
        assert removed.count == len(expected)
        assert [one.name for one in removed.items] == expected[:log]

    def drain_failed(self, name: str, filters: Filters, chunk: int) -> None:
        """By filters."""

        async def drain() -> list[str]:
            walk = self.queue(name).drain_failed(**filters.words(), chunk=chunk)
            return [located.name async for located in walk]

        assert self.run(drain()) == filters.of(self.models[name])

    def failed_item(self, name: str, item: str, *, remove: bool) -> None:
        """One of them, by its name."""
        queue, model = self.queue(name), self.models[name]
        if remove:
            located = self.run(queue.remove_failed_item(item))
            assert ([located.name] if located else []) == model.remove_failed_item(item)
        else:
            assert self.run(queue.requeue_failed_item(item)) == model.requeue_failed_item(item)

    def apply_failed_policy(self, name: str, limit: int) -> None:
        """One pass."""
        done = self.run(self.queue(name).apply_failed_policy(limit=limit))
        assert (done.requeued, done.removed) == self.models[name].apply_failed_policy(limit)
