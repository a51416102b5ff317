"""Writes items as JSON lines, as CSV or raw, in the forms that `claimq import` and `claimq enqueue` read."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from claimq.codec import BARE_ID
from claimq.item_options import ITEM_OPTIONS
from claimq.model import Located
from claimq_admin.errors import USAGE, CommandError
from claimq_admin.item_files.text_encoding import MARKS
from claimq_admin.reads.documents import options_of

FORMS = ("jsonl", "csv", "raw")
_COLUMNS = (
    "id", "payload", "payload_base64", "client", "at", "state", *(option.name for option in ITEM_OPTIONS), "escaped",
)  # fmt: skip
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a spreadsheet may take for the beginning of a formula: the last four are the wide forms of the first."""


@contextmanager
def new_file(path: Path) -> Generator[BinaryIO]:
    """A new file, whose name survives a power cut as its content does. Raises OSError."""
    file = path.open("xb")
    try:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        yield file
    except BaseException:
        with suppress(OSError):  # what could not be written cannot be written now either
            file.close()
        raise
    file.close()


class ItemWriter:
    """Writes items to an open file."""

    def __init__(self, file: BinaryIO, form: str, end: bytes = b"\n") -> None:
        self._file, self._form, self._end = file, form, end
        if form == "csv":
            self._file.write(_csv_row(_COLUMNS))

    def write(self, items: Sequence[Located]) -> None:
        """Writes items. After an error, some of them may be written. CommandError for a payload that contains the
        separator of the raw form."""
        for located in items:
            self._file.write(self._encoded(located))
        self._file.flush()

    def store(self) -> None:
        """Returns when everything that was written is on the disk."""
        os.fsync(self._file.fileno())

    def _unreadable(self, payload: bytes) -> str:
        """Why `claimq enqueue --lines` would not read this payload as it is; an empty text if it would."""
        if self._end in payload:
            return "contains the separator"
        if self._end == b"\n" and (not payload or payload.endswith(b"\r")):
            return "ends with a carriage return" if payload else "is empty"
        if self._end == b"\n" and payload.startswith(MARKS):
            return "begins with a byte order mark"
        return ""

    def _encoded(self, located: Located) -> bytes:
        match self._form:
            case "raw":
                if why := self._unreadable(located.item.payload):
                    advice = "--format jsonl" if self._end == b"\0" else "--null or --format jsonl"
                    raise CommandError(f"item {located.item.id} {why}; use {advice}", USAGE)
                return located.item.payload + self._end
            case "csv":
                fields = fields_of(located)
                fields["headers"] = json.dumps(fields["headers"]) if fields["headers"] else None
                _escape(fields)
                return _csv_row(["" if fields.get(name) is None else fields[name] for name in _COLUMNS])
            case _:
                return json.dumps(fields_of(located)).encode() + b"\n"


def fields_of(located: Located) -> dict[str, Any]:
    """The fields of a line; `claimq import` reads those before `state`. Items that were pushed as bare
    payloads have no id."""
    item = located.item
    try:
        payload = {"payload": item.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": base64.b64encode(item.payload).decode()}
    return {
        "id": None if item.id.startswith(BARE_ID) else item.id,
        **payload,
        "client": item.client,
        "at": located.due_at,
        **options_of(item),
        "state": located.state.value,
        "first_enqueued_at": item.first_enqueued_at,
        "requeue_count": item.requeue_count,
        "fail_count": item.fail_count,
        "crash_count": item.crash_count,
        "given_up_count": item.given_up_count,
        "last_error": item.last_error,
    }


def _escape(fields: dict[str, Any]) -> None:
    """Puts an apostrophe before texts that would be formulas in a spreadsheet. The field `escaped` names them, so that
    `claimq import` takes it away."""
    odd = [name for name, text in fields.items() if isinstance(text, str) and text.startswith(_FORMULA)]
    for name in odd:
        fields[name] = f"'{fields[name]}"
    fields["escaped"] = " ".join(name for name in odd if name in _COLUMNS)


def _csv_row(cells: Sequence[object]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue().encode()
