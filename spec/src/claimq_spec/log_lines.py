"""The format of all log lines: logfmt, one line per record, the same in the operator and the sidecar.

``ts=2026-01-31T08:56:21.754Z level=info logger=claimq_operator event=ended code=0``

Our own records are a :class:`LogEvent`. Messages of libraries become ``event=note msg="the sentence"``, so that
``event`` has few values, by which one can search and count. Only our programs call :func:`write_log`: a program that
uses the library has its own log.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from types import TracebackType

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
"""What a setting and the field ``level`` can say, with Python's number for it."""

OWN_FIELDS = ("ts", "level", "logger", "event", "traceback", "stack")
"""The fields that every record gets or can get; no LogEvent has one of these names."""


class LogEvent:
    """What a record says: ``_log.info(LogEvent("leading", identity=me))``.

    ``name`` is a word of small letters and underscores that never changes with the data; the fields follow in the
    order given. A field that is None is left out; an error without words reads as the name of its class. Its str() is
    ``event=leading identity=...``, so that any handler shows it well.
    """

    __slots__ = ("fields", "name")

    def __init__(self, name: str, /, **fields: object) -> None:
        self.name = name
        self.fields = fields

    def __str__(self) -> str:
        return " ".join(_pairs({"event": self.name, **self.fields}))


class LogLines(logging.Formatter):
    """Formats any record as one line, whatever is in it.

    ``quotes_errors``: whether the message of an error that a record carries (``exc_info``) is shown. Without, its class
    and the places in the code are, for programs in whose errors a payload can be.
    """

    def __init__(self, *, quotes_errors: bool) -> None:
        super().__init__()
        self._quotes_errors = quotes_errors

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        said = record.msg if isinstance(record.msg, LogEvent) else LogEvent("note", msg=_sentence(record))
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {
            "ts": moment.replace("+00:00", "Z"),
            "level": _level(record.levelno),
            "logger": record.name,
            "event": said.name,
            **said.fields,
        }
        if record.exc_info and record.exc_info[1] is not None:
            fields.setdefault("error", self._error_text(record.exc_info[1]))
            fields["traceback"] = "".join(self._trace(record.exc_info[1])).rstrip()
        if record.stack_info:
            fields["stack"] = record.stack_info
        return " ".join(_pairs(fields))

    def _error_text(self, error: BaseException) -> str:
        return _summary(error) if self._quotes_errors else type(error).__name__

    def _trace(self, error: BaseException) -> Iterable[str]:
        if self._quotes_errors:
            return traceback.format_exception(error)
        return [*traceback.format_tb(error.__traceback__), type(error).__name__]


def write_log(level: str, *, quotes_errors: bool, quiet: Iterable[str]) -> None:
    """Sends every record of this process to standard error, in this form: warnings and what ends the process too.

    ``level``: one of LEVELS. ``quiet``: loggers of other libraries, heard from ``warn`` on (from ``info`` on if the
    level is ``debug``). ``quotes_errors``: see :class:`LogLines`.
    """
    least = LEVELS[level]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLines(quotes_errors=quotes_errors))
    logging.basicConfig(level=least, handlers=[handler], force=True)
    for name in quiet:
        logging.getLogger(name).setLevel(
            logging.INFO if least == logging.DEBUG else max(least, logging.WARNING)
        )
    logging.captureWarnings(True)
    sys.excepthook = _end_of_process


def _end_of_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not isinstance(error, Exception):  # Ctrl-C
        sys.__excepthook__(kind, error, trace)
        return
    # With its message: the process cannot be asked later.
    logging.getLogger("claimq").critical(LogEvent("defect", error=_summary(error)), exc_info=error)


def _sentence(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)  # arguments that do not fit: still one line, and what it was about


def _summary(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _level(number: int) -> str:
    """The word for a record's level; critical counts as error, a level of a library's own as the one below it."""
    return next((word for word, least in reversed(LEVELS.items()) if number >= least), "debug")


def _pairs(fields: dict[str, object]) -> Iterator[str]:
    return (f"{key}={_value(_text(value))}" for key, value in fields.items() if value is not None)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    return str(value)


def _value(text: str) -> str:
    """As logfmt has it: bare if that is clear, else quoted with JSON's escapes, which its readers undo."""
    if text and text.isprintable() and not any(one in text for one in ' ="\\'):
        return text
    return f'"{"".join(_escaped(one) for one in text)}"'


def _escaped(one: str) -> str:
    """A character inside of quotes; escaped if a terminal would obey it or a reader take it for the end of a line."""
    return one if one.isprintable() and one not in '"\\' else json.dumps(one)[1:-1]
