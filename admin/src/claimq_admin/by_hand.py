"""The names under which commands and the web page claim items to act on them: they are not workers of the queue."""

from __future__ import annotations

from claimq.server import default_worker

_PREFIX = "by-hand."


def name_by_hand() -> str:
    """A name for this process that no other one uses."""
    return f"{_PREFIX}{default_worker()}"


def is_by_hand(worker: str) -> bool:
    """Whether a command or a web page claims under this name."""
    return worker.startswith(_PREFIX)
