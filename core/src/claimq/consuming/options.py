"""Arguments and result of ``consume``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from claimq.consuming.handling import Handler
from claimq.queue.claiming import Claimed


class OnFailure(StrEnum):
    """Where an item goes whose handler raised: requeued by the policy, straight to failed, or removed."""

    REQUEUE = "requeue"
    FAIL = "fail"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Consumed:
    """Result of a ``consume``: items done, failed attempts, claims that were lost while their handler ran, why it
    ended (max_items, max_seconds, empty, paused, stop, SIGINT or SIGTERM), and claims that a handler requeued or
    postponed."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    stopped_by: str = ""
    requeued: int = 0
    postponed: int = 0


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of ``consume``; see there."""

    handler: Handler
    chunk: int | None
    max_items: int | None
    return_when_empty: bool
    process_all: bool
    pause: float
    die_on_error: bool
    on_failure: OnFailure

    @property
    def is_in_chunks(self) -> bool:
        """The loops take a whole chunk, or pause after one: nothing is claimed ahead."""
        return self.process_all or self.pause > 0


@dataclass(frozen=True, slots=True)
class QueueCalls:
    """The calls of a queue that a run uses besides verdicts."""

    claim: Callable[[int | Callable[[], int], float | None], Awaitable[Claimed]]
    lost_claims_recovered: Callable[[], Coroutine[Any, Any, None]]
    in_background: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    end_timeout: float
    """Seconds without an answer after which a run that has ended makes no more calls."""
