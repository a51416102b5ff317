"""Curves of queues from Prometheus, kept for some seconds: an open page asks for them every two."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import NamedTuple

from claimq.concurrency.background_work import in_background
from claimq_cli.errors import CommandError
from claimq_cli.web.curves import Curves
from claimq_cli.web.prometheus.client import PrometheusClient
from claimq_cli.web.prometheus.queries import NoCurves, NoData, Range, curves_in, paths

_KEPT_SECONDS = 15.0
_MOST_KEPT = 64
_log = logging.getLogger(__name__)


class _Kept(NamedTuple):
    asked_at: float
    reading: asyncio.Task[Curves | NoCurves]


class Prometheus:
    """Reads the curves of a queue at most every 15 seconds, also if there are none."""

    def __init__(self, client: PrometheusClient) -> None:
        self._client = client
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._problem = ""

    async def curves(self, queue: str, hours: int, until: float) -> Curves:
        """The curves of about so many hours. NoCurves."""
        key, now = (queue, hours), time.monotonic()
        kept = self._kept.get(key)
        if kept is None or now - kept.asked_at > _KEPT_SECONDS:
            reading = in_background(self._read(queue, hours, until), name="curves from Prometheus")
            self._kept.pop(key, None)
            kept = self._kept[key] = _Kept(now, reading)
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        # A user who closes the page ends only the wait: others may wait for the same curves.
        found = await asyncio.shield(kept.reading)
        if isinstance(found, NoCurves):
            raise found.with_traceback(None)
        return found

    async def _read(self, queue: str, hours: int, until: float) -> Curves | NoCurves:
        try:
            reach = Range.of(hours, until)
        except (ArithmeticError, ValueError):
            return NoData("the clock of the queue's server is wrong")
        try:
            asked = paths(queue, reach)
            replies = await asyncio.gather(*map(self._client.get, asked.values()))
            found = curves_in(dict(zip(asked, replies, strict=True)), reach)
        except NoData as error:
            return error
        except NoCurves as error:
            self._note(error)
            return error
        self._note(None)
        return found

    def _note(self, error: NoCurves | None) -> None:
        """Logs a problem when it begins and when it ends; what a server has sent is not logged."""
        problem = str(error or "")
        if problem and problem != self._problem:
            cause = error.__cause__ if error else None
            _log.warning("%s%s", problem, f": {cause}" if isinstance(cause, CommandError | OSError) else "")
        elif self._problem and not problem:
            _log.info("Prometheus answers again")
        self._problem = problem
