"""Returns claims to the queue, in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from claimq.concurrency.background_work import in_background
from claimq.errors import ClaimqError, StoreUnavailable
from claimq_process.log_lines import LogEvent
from claimq_sidecar.claims.verdicts import Verdicts

_log = logging.getLogger("claimq_sidecar")


class GiveBacks:
    """Claims on their way back."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(
        self, tokens: Sequence[str], *, cause: str, crash: str | None = None, why: str = ""
    ) -> asyncio.Task[None]:
        """Returns claims as :meth:`Verdicts.give_back`. Logs what fails."""
        work = self._give_back(tokens, cause=cause, crash=crash, why=why)
        task = in_background(work, name="give back claims")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def unread(self, tokens: Sequence[str]) -> None:
        """Returns claims that the app never got to the head of the queue, uncounted."""
        if tokens:
            self.begin(tokens, cause="unread")

    async def settled(self) -> None:
        """Waits for those that have begun."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _give_back(self, tokens: Sequence[str], *, cause: str, crash: str | None, why: str) -> None:
        try:
            await self._verdicts.give_back(tokens, cause=cause, crash=crash, why=why)
        except StoreUnavailable as error:
            _log.warning(LogEvent("give_back_failed", cause=cause, claims=len(tokens), error=error))
        except ClaimqError as error:
            _log.warning(LogEvent("give_back_refused", cause=cause, claims=len(tokens), error=error))
