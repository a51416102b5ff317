"""Logs: one line an event, ``ts=... level=... logger=... event=... key=value``; no payloads, no secrets."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime


class OneLine(logging.Formatter):
    """Formats a record as one line, whatever its message holds."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        moment = (
            datetime.fromtimestamp(record.created, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        )
        text = record.getMessage()
        if not text.startswith("event="):
            text = f"event=note message={text!r}"
        if record.exc_info and record.exc_info[0] is not None:
            text += f" error={record.exc_info[0].__name__}"
        line = f"ts={moment} level={record.levelname.lower()} logger={record.name} {text}"
        return line.replace("\n", "\\n").replace("\r", "\\r")


def configure(level: str) -> None:
    """Sends all logs to standard error, one line each; the HTTP server's own only from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
