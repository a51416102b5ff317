"""The format of all log lines: logfmt, one line per record, the same in the operator and the sidecar.

``ts=2026-01-31T08:56:21.754Z level=info logger=claimq_operator event=ended code=0``

Our own records are a :class:`LogEvent`. Messages of libraries become ``event=note msg="the sentence"``, so that
``event`` has few values to search and count by. Only our programs call :func:`write_log`; a program that uses the
library has its own logging.
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
"""Values of the setting and of the field ``level``, with Python's numbers."""

OWN_FIELDS = ("ts", "level", "logger", "event", "traceback", "stack")
"""Fields that any record may have; a LogEvent must not use these names."""


class LogEvent:
    """The content of a record: ``_log.info(LogEvent("leading", identity=me))``.

    ``name`` is a word of small letters and underscores that never changes with the data; the fields follow in the
    order given. A field that is None is omitted; an error without a message is shown as its class. Its str() is
    ``event=leading identity=...``, which any handler can show.
    """

    __slots__ = ("fields", "name")

    def __init__(self, name: str, /, **fields: object) -> None:
        self.name = name
        self.fields = fields

    def __str__(self) -> str:
        return " ".join(_pairs({"event": self.name, **self.fields}))


class LogLines(logging.Formatter):
    """Formats any record as one line.

    ``quotes_errors``: whether the message of an error that a record carries (``exc_info``) is shown. If not, only its
    class and the places in the code are, for programs whose errors can contain payloads.
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
    """Writes every record of this process to standard error in this form, also warnings and uncaught exceptions.

    ``level``: one of LEVELS. ``quiet``: loggers of other libraries, logged from ``warn`` on (from ``info`` on if the
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
    # With its message: the process ends, so it cannot be inspected later.
    logging.getLogger("claimq").critical(LogEvent("defect", error=_summary(error)), exc_info=error)


def _sentence(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)  # arguments that do not fit the format: still one line, with the format


def _summary(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error)).strip()


def _level(number: int) -> str:
    """The name of a record's level: critical becomes error, a library's own level the next lower one."""
    return next((word for word, least in reversed(LEVELS.items()) if number >= least), "debug")


def _pairs(fields: dict[str, object]) -> Iterator[str]:
    return (f"{key}={_value(_text(value))}" for key, value in fields.items() if value is not None)


def _text(field: object) -> str:
    if isinstance(field, bool):
        return "true" if field else "false"
    if isinstance(field, BaseException):
        return str(field) or type(field).__name__
    return str(field)


def _value(text: str) -> str:
    """A logfmt value: bare if that is unambiguous, else quoted with the escapes of JSON."""
    if text and text.isprintable() and not any(special in text for special in ' ="\\'):
        return text
    return f'"{"".join(_escaped(character) for character in text)}"'


def _escaped(character: str) -> str:
    """A character inside quotes. Escaped if it is a control character or could be read as the end of a line."""
    return character if character.isprintable() and character not in '"\\' else json.dumps(character)[1:-1]
