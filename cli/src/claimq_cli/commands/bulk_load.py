"""Enqueues lines. Keeps track of its progress, so that an interrupted or refused load can be resumed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from claimq.errors import ClaimqError, InvalidName, ItemTooLarge, StoreFull, StoreMisused
from claimq.model import Enqueued, NewItem, Priority
from claimq.queue.batches import batch_of
from claimq_cli.commands.input_source import Portion
from claimq_cli.errors import INTERRUPTED, UNAVAILABLE, CommandError, exit_code_of
from claimq_cli.output.answers import count
from claimq_cli.output.progress import Progress
from claimq_cli.rate_limit import UNLIMITED, Pace

LISTED = 1000
"""The most ids in the JSON document of a load, so that its memory is bounded."""
_REFUSED = (StoreFull, StoreMisused, ItemTooLarge, InvalidName, ValueError)
"""Errors after which no item of the call is stored. After other errors of the library, some may be stored."""


class Lines(Protocol):
    """An input of lines, see `InputSource`."""

    is_terminal: bool

    def portions(self, end: bytes, stop: asyncio.Event) -> AsyncIterator[Portion]:
        """Yields lines as they arrive, until the end or until ``stop`` is set."""
        ...


class Target(Protocol):
    """A queue of the library, or one behind a web page."""

    async def enqueue_many(self, items: Sequence[NewItem], /) -> Enqueued:
        """Adds items in order."""
        ...


@dataclass(frozen=True)
class Wanted:
    """Settings that all items of a load share, and the first line to enqueue."""

    client: str | None = None
    delay: float | None = None
    at: float | None = None
    id_prefix: str | None = None
    from_line: int = 1
    headers: Mapping[str, str] | None = None
    deadline: float | timedelta | None = None
    max_requeues: int | None = None
    priority: Priority | str = Priority.NORMAL
    exclusive_key: str | None = None

    def item(self, number: int, payload: bytes) -> NewItem:
        """The item of one line."""
        own = None if self.id_prefix is None else f"{self.id_prefix}{number}"
        return NewItem(
            payload, own, self.client, self.delay, self.at, self.headers, self.deadline, self.max_requeues,
            self.priority, self.exclusive_key,
        )  # fmt: skip


@dataclass(slots=True)
class Loaded:
    """The progress of a load."""

    enqueued: int = 0
    known: int = 0
    length: int = 0
    last_line: int = 0
    ids: list[str] = field(default_factory=list[str])
    duplicates: list[str] = field(default_factory=list[str])

    def add(self, done: Enqueued) -> None:
        """Adds the result of one call."""
        self.known += len(done.duplicates)
        self.enqueued += len(done.ids) - len(done.duplicates)
        self.length = done.length
        self.ids += done.ids[: LISTED - len(self.ids)]
        self.duplicates += done.duplicates[: LISTED - len(self.duplicates)]

    @property
    def summary(self) -> str:
        """How many items were enqueued, and how many were known already."""
        known = f", {count(self.known)} known already" if self.known else ""
        return f"{count(self.enqueued)} enqueued{known}"

    def document(self, queue: str) -> dict[str, object]:
        """The JSON document of a load."""
        return {
            "queue": queue,
            "ids": self.ids,
            "length": self.length,
            "duplicates": self.duplicates,
            "enqueued": self.enqueued,
            "duplicate_count": self.known,
            "last_line": self.last_line,
        }


async def load(
    queue: Target,
    source: Lines,
    end: bytes,
    wanted: Wanted,
    stop: asyncio.Event,
    pace: Pace = UNLIMITED,
    *,
    shows_progress: bool = True,
) -> Loaded:
    """Enqueues the lines of the source. If it is stopped, CommandError with the line to resume at.

    ``shows_progress``: on stderr, if that is a terminal.
    """
    batch_of(
        [Wanted.item(wanted, wanted.from_line, b"")]
    )  # a wrong option is refused before anything is read
    loaded = Loaded(last_line=wanted.from_line - 1)
    progress = Progress(is_shown=shows_progress and sys.stderr.isatty() and not source.is_terminal)
    try:
        async for portion in source.portions(end, stop):
            lines = [line for line in portion.lines if line[0] >= wanted.from_line]
            if lines:
                await _enqueue(queue, lines, portion, loaded, wanted)
            loaded.last_line = max(loaded.last_line, portion.last)
            progress.show(f"{loaded.last_line:,} lines, {loaded.enqueued:,} enqueued")
            await pace.wait(len(lines), stop)
    finally:
        progress.clear()
    if stop.is_set():
        raise CommandError(f"interrupted; {_position(loaded, wanted)}", INTERRUPTED)
    return loaded


async def _enqueue(
    queue: Target,
    lines: list[tuple[int, bytes]],
    portion: Portion,
    loaded: Loaded,
    wanted: Wanted,
) -> None:
    try:
        loaded.add(await queue.enqueue_many([wanted.item(*line) for line in lines]))
    except _REFUSED as error:
        at = f" (line {lines[error.index][0]})" if isinstance(error, ItemTooLarge) else ""
        raise CommandError(f"{error}{at}; {_position(loaded, wanted)}", exit_code_of(error)) from error
    except (ClaimqError, CommandError, asyncio.CancelledError) as error:
        is_refused = isinstance(error, CommandError) and error.exit_code != UNAVAILABLE
        lines_of_call = f"lines {max(portion.first, wanted.from_line)} to {portion.last}"
        unknown = "" if is_refused else f"; {lines_of_call} may or may not be stored"
        code = INTERRUPTED if isinstance(error, asyncio.CancelledError) else exit_code_of(error)
        why = "interrupted" if isinstance(error, asyncio.CancelledError) else str(error)
        raise CommandError(f"{why}; {_position(loaded, wanted)}{unknown}", code) from error


def _position(loaded: Loaded, wanted: Wanted) -> str:
    resume = f"--from-line {loaded.last_line + 1}"
    if wanted.id_prefix is not None:
        resume += f" --id-prefix {wanted.id_prefix}"
    return f"stopped after line {loaded.last_line}, {loaded.enqueued:,} enqueued; continue with {resume}"
