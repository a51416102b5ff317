"""Enqueues lines. Keeps track of its progress, so that an interrupted or refused load can be resumed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import claimq
from claimq.codec import check_name, check_new_item, payload_bytes
from claimq.errors import (
    ClaimqError,
    InvalidName,
    ItemRefused,
    ItemTooCostly,
    ItemTooLarge,
    QueueFull,
    StoreFull,
    StoreMisused,
)
from claimq.item_options import ItemOptions, new_item
from claimq.model import Enqueued, NewItem
from claimq.queue.batches import batches_of
from claimq_admin.errors import INTERRUPTED, CommandError, exit_code_of
from claimq_admin.rate_limit import UNLIMITED, Pace
from claimq_admin.text import count, known_text
from claimq_cli.commands.moving.input_source import Portion
from claimq_cli.output.progress import Progress
from claimq_cli.output.terminal import say_error

LISTED = 1000
"""The most ids in the JSON document of a load, so that its memory is bounded."""
_REFUSED = (StoreFull, StoreMisused, ItemRefused, InvalidName, ValueError)
"""Errors after which no item of the call is stored. After other errors of the library, some may be stored."""


class Lines(Protocol):
    """An input of lines, see `InputSource`."""

    is_terminal: bool

    def portions(self, end: bytes, stop: asyncio.Event) -> AsyncIterator[Portion]:
        """Yields lines as they arrive, until the end or until ``stop`` is set."""
        ...


@dataclass(frozen=True)
class Wanted:
    """Settings that all items of a load share, and the first line to enqueue."""

    options: ItemOptions = field(default_factory=ItemOptions)
    id_prefix: str | None = None
    from_line: int = 1

    def item(self, number: int, payload: bytes) -> NewItem:
        """The item of one line. ValueError with what is wrong."""
        item_id = None if self.id_prefix is None else check_name("id", f"{self.id_prefix}{number}")
        return new_item(payload, {**self.options, "id": item_id})


class RefusedLine(NamedTuple):
    """A line that is no item, or one that the queue does not take."""

    line: int
    reason: str


@dataclass(slots=True)
class Loaded:
    """The progress of a load."""

    enqueued: int = 0
    known: int = 0
    length: int = 0
    last_line: int = 0
    ids: list[str] = field(default_factory=list[str])
    duplicates: list[str] = field(default_factory=list[str])
    refused: list[RefusedLine] = field(default_factory=list["RefusedLine"])
    """The first of them."""
    refused_count: int = 0
    cut_count: int = 0
    """Empty lines that were skipped, and lines without the carriage return at their end."""

    report: Callable[[str], None] = say_error
    """Takes a text about each line that is refused, up to a number of lines."""

    def refuse(self, line: int, reason: str) -> None:
        """Counts a line that is not enqueued, and reports it."""
        self.refused_count += 1
        if len(self.refused) < LISTED:
            self.refused.append(RefusedLine(line, reason))
            self.report(f"line {line} is not enqueued: {reason}")

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
        refused = f", {count(self.refused_count, 'line')} refused" if self.refused_count else ""
        return f"{count(self.enqueued)} enqueued{known_text(self.known)}{refused}"

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
            "refused": [line._asdict() for line in self.refused],
            "refused_count": self.refused_count,
            "cut_count": self.cut_count,
        }


async def load(
    queue: claimq.ReliableQueue,
    source: Lines,
    end: bytes,
    options: Wanted,
    stop: asyncio.Event,
    pace: Pace = UNLIMITED,
    *,
    report: Callable[[str], None] | None = None,
) -> Loaded:
    """Enqueues the lines of the source. If it is stopped, CommandError with the line to resume at.

    Refused lines are reported, and the others are enqueued. ``report`` takes the texts about refused lines; then
    nothing is written to stderr and no progress is shown.
    """
    # Before anything is read: the options that all lines share, and not what a subclass reads in a line.
    check_new_item(Wanted.item(options, options.from_line, b""))
    loaded = Loaded(last_line=options.from_line - 1, report=report or say_error)
    progress = Progress(is_shown=report is None and sys.stderr.isatty() and not source.is_terminal)
    try:
        async for portion in source.portions(end, stop):
            lines = [line for line in portion.lines if line[0] >= options.from_line]
            loaded.cut_count += sum(number >= options.from_line for number in portion.cut)
            if lines:
                step = _Step(queue, portion, loaded, options)
                await step.enqueue(lines)
            loaded.last_line = max(loaded.last_line, portion.last)
            progress.show(f"{loaded.last_line:,} lines, {loaded.enqueued:,} enqueued")
            await pace.wait(len(lines), stop)
    finally:
        progress.clear()
    if stop.is_set():
        raise CommandError(f"interrupted; {_position(loaded, options)}", INTERRUPTED)
    if loaded.refused_count and options.id_prefix is not None:
        loaded.report(
            f"correct the refused lines where they stand, and repeat the command with --id-prefix {options.id_prefix}: "
            "within the queue's idWindow the other lines are not added again"
        )
    return loaded


@dataclass(frozen=True, slots=True)
class _Step:
    """The lines of one call."""

    queue: claimq.ReliableQueue
    portion: Portion
    loaded: Loaded
    wanted: Wanted

    async def enqueue(self, lines: list[tuple[int, bytes]]) -> None:
        """Enqueues the lines, except those that are refused."""
        items = [(line[0], item) for line in lines if (item := self._item(*line)) is not None]
        most = len(items)
        while items:
            try:
                done = await self._send([item for _, item in items[:most]])
                self.loaded.add(done)
                self.loaded.last_line = max(self.loaded.last_line, items[len(done.ids) - 1][0])
                del items[: len(done.ids)]
            except ItemTooLarge as error:
                number, item = items.pop(error.index)
                if len(payload_bytes(item.payload)) != error.size:
                    raise self._stopped(error, f" (line {number})", exit_code_of(error)) from error
                self.loaded.refuse(number, too_large(error.size, error.limit))
            except ItemTooCostly as error:
                number, _ = items.pop(error.index)
                self.loaded.refuse(
                    number,
                    f"it costs {error.cost}, and the limit {error.name} lets {error.limit} start at once",
                )
            except QueueFull as error:
                # As many as there is room for; then the stop names the last line that is stored.
                room = most // 2 if error.unit == "bytes" else error.limit - error.waiting
                if not 0 < room < most:
                    raise self._stopped(error, "", exit_code_of(error)) from error
                most = room
            except _REFUSED as error:
                raise self._stopped(error, "", exit_code_of(error)) from error
            except (ClaimqError, asyncio.CancelledError) as error:
                raise self._in_doubt(error) from error

    async def _send(self, items: list[NewItem]) -> Enqueued:
        """Enqueues as many of the first items as one call of the server takes. After an error none is stored."""
        return await self.queue.enqueue_many(items[: len(next(batches_of(items)).ids)])

    def _item(self, number: int, line: bytes) -> NewItem | None:
        try:
            return self.wanted.item(number, line)
        except ValueError as error:
            self.loaded.refuse(number, str(error))
            return None

    def _stopped(self, error: Exception, line: str, code: int) -> CommandError:
        return CommandError(f"{error}{line}; {_position(self.loaded, self.wanted)}", code)

    def _in_doubt(self, error: Exception | asyncio.CancelledError) -> CommandError:
        first = max(self.portion.first, self.loaded.last_line + 1)
        unknown = f"; lines {first} to {self.portion.last} may or may not be stored"
        code, why = INTERRUPTED, "interrupted"
        if not isinstance(error, asyncio.CancelledError):
            code, why = exit_code_of(error), str(error)
        return CommandError(f"{why}; {_position(self.loaded, self.wanted)}{unknown}", code)


def too_large(size: int, limit: int) -> str:
    """Why a queue refuses a line."""
    return f"the payload has {size} bytes and the queue takes at most {limit}"


def _position(loaded: Loaded, options: Wanted) -> str:
    resume = f"--from-line {loaded.last_line + 1}"
    if options.id_prefix is not None:
        resume += f" --id-prefix {options.id_prefix}"
    return f"stopped after line {loaded.last_line}, {loaded.enqueued:,} enqueued; continue with {resume}"
