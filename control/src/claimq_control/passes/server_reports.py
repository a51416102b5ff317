"""The version and settings of a server, read once a minute."""

from __future__ import annotations

from claimq.errors import ClaimqError
from claimq.model import ServerReport
from claimq.server import Server

REPORT_SECONDS = 60.0
_NEVER = float("-inf")


class ServerReports:
    """The last report of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._report: ServerReport | None = None
        self._read_at = _NEVER

    async def current(self, now: float) -> ServerReport | None:
        """The last report. ``now``: monotonic seconds. Raises ClaimqError."""
        if now - self._read_at >= REPORT_SECONDS:
            self._read_at = now
            try:
                self._report = await self._server.report()
            except ClaimqError:
                self._read_at = _NEVER
                raise
        return self._report
