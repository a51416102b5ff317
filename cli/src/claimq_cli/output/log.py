"""Shows log records of the library to people."""

from __future__ import annotations

import logging

from claimq_cli.output import terminal


def log_to_stderr(name: str, level: int) -> None:
    """Prints the records of this logger from ``level`` on, each on one line."""

    class ToStderr(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            terminal.say_error(record.getMessage())

    logger = logging.getLogger(name)
    logger.handlers = [ToStderr()]
    logger.setLevel(level)
    logger.propagate = False
