"""Imports items from JSON lines and CSV."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import claimq
from claimq.codec import check_new_item, payload_bytes
from claimq.internals.operations import internals
from claimq.model import NewItem
from claimq_admin.item_files.item_files import CsvFile, item_of_json
from claimq_admin.rate_limit import Pace
from claimq_cli.commands.moving.bulk_load import Lines, Loaded, Wanted, load, too_large
from claimq_cli.commands.moving.input_source import InputSource, Portion
from claimq_cli.migration.mover import SAMPLES


@dataclass(frozen=True)
class ItemLines(Wanted):
    """The items of a file's lines. An id in the line takes precedence over ``id_prefix``."""

    csv: CsvFile | None = None

    def item(self, number: int, payload: bytes) -> NewItem:
        """The item that a line describes. ValueError with what is wrong."""
        try:
            line_item = item_of_json(payload) if self.csv is None else self.csv.item(payload)
            usual = super().item(number, b"")
            item = replace(line_item, id=line_item.id or usual.id, client=line_item.client or usual.client)
            check_new_item(item)
        except TypeError as error:
            raise ValueError(str(error)) from error
        return item


@dataclass(slots=True)
class Tally:
    """What a dry run found."""

    count: int = 0
    known: int = 0
    delayed: int = 0
    problems: Counter[str] | None = None
    problem_count: int = 0
    samples: tuple[NewItem, ...] = ()

    def add(self, item: NewItem, known_ids: set[str]) -> None:
        """Counts an item. ``known_ids``: ids that the queue knows."""
        if item.id is not None and item.id in known_ids:
            self.known += 1
            return
        if item.id is not None:
            known_ids.add(item.id)  # a second item of this id in the file
        self.count += 1
        self.delayed += item.at is not None
        if len(self.samples) < SAMPLES:
            self.samples += (item,)


class CsvLines:
    """The records of a CSV file as numbered lines."""

    def __init__(self, source: InputSource, csv: CsvFile) -> None:
        self.is_terminal = source.is_terminal
        self._source, self._csv = source, csv

    async def portions(self, end: bytes, stop: asyncio.Event) -> AsyncIterator[Portion]:
        """Yields records as they arrive. A portion ends with its last whole record."""
        done = number = 0
        async for portion in self._source.portions(end, stop, trims=False):
            lines: list[tuple[int, bytes]] = []
            last = done
            for number, line in portion.lines:
                record = self._csv.record(number, line)
                if record is not None:
                    lines.append(record)
                    last = number
            if lines:
                yield Portion(done + 1, last, tuple(lines))
                done = last
        if not stop.is_set() and (record := self._csv.rest()):
            yield Portion(done + 1, number, (record,))


class ItemFile:
    """Items in an open file, which the caller closes."""

    def __init__(self, source: InputSource, form: str, options: Wanted) -> None:
        csv = CsvFile() if form == "csv" else None
        self._lines: Lines = source if csv is None else CsvLines(source, csv)
        self._wanted = ItemLines(
            options=options.options, id_prefix=options.id_prefix, from_line=options.from_line, csv=csv
        )

    async def load(self, queue: claimq.ReliableQueue, stop: asyncio.Event, pace: Pace) -> Loaded:
        """Enqueues the items."""
        return await load(queue, self._lines, b"\n", self._wanted, stop, pace)

    async def tally(self, queue: claimq.ReliableQueue, stop: asyncio.Event) -> Tally:
        """Counts the items that a load would enqueue, those that the queue knows already, and the problems. Keeps the
        first three of each."""
        tally = Tally(problems=Counter())
        largest = (await queue.policy()).max_payload
        async for portion in self._lines.portions(b"\n", stop):
            lines = [line for line in portion.lines if line[0] >= self._wanted.from_line]
            items = [item for line in lines if (item := self._checked(tally, *line, largest)) is not None]
            known_ids = await internals(queue).known_ids([item.id for item in items if item.id is not None])
            for item in items:
                tally.add(item, known_ids)
        return tally

    def _checked(self, tally: Tally, number: int, line: bytes, largest: int) -> NewItem | None:
        try:
            item = self._wanted.item(number, line)
            if (size := len(payload_bytes(item.payload))) > largest:
                raise ValueError(too_large(size, largest))
        except ValueError as error:
            tally.problem_count += 1
            if tally.problems is not None and len(tally.problems) < SAMPLES:
                tally.problems[f"line {number}: {error}"] += 1
            return None
        return item


def content_prefix(source: str) -> str | None:
    """A prefix for ids, derived from a file's content; None for input that cannot be read twice."""
    path = Path(source)
    if source == "-" or not path.is_file():
        return None
    with path.open("rb") as file:
        return f"file-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}-"
