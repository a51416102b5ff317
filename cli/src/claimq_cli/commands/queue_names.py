"""Checks that a queue exists, suggests names for misspelled ones, and reports new ones."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

import claimq
from claimq_cli.errors import NOT_DONE, CommandError

_MOST = 3


@dataclass(frozen=True, slots=True)
class NewQueue:
    """A queue that did not exist before the command. ``hint``: see :func:`did_you_mean`."""

    hint: str

    def text(self, enqueued: int) -> str:
        """Whether it was created, for the end of a line."""
        return f" ({'a new queue' if enqueued else 'no queue was created'}{self.hint})"


async def check_exists(server: claimq.Server, queue: claimq.ReliableQueue) -> None:
    """Raises CommandError if the queue does not exist, with similar names."""
    if not await queue.exists():
        hint = did_you_mean(queue.name, await server.queues())
        raise CommandError(
            f"there is no queue {queue.name} on this server{hint} (see `claimq queues`)", NOT_DONE
        )


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean A or B?``, or an empty text. ``NAME`` also matches ``NAMESPACE.NAME``."""
    others = [one for one in known if one != name]
    meant = [one for one in others if one.endswith(f".{name}")]
    meant += [one for one in difflib.get_close_matches(name, others, _MOST) if one not in meant]
    return f"; did you mean {' or '.join(meant[:_MOST])}?" if meant else ""
