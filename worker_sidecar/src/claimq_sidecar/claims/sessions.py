"""Sessions: one long-lived connection of the app that proves that it is alive."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field


class SessionNotOpen(Exception):
    """The session has ended, or belongs to a sidecar that is not running any more."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


@dataclass(slots=True, eq=False)
class Session:
    """An open session. ``closed`` is set the moment its connection ends. ``pid``: the app's, 0 if not known."""

    id: str
    pid: int
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def who(self) -> str:
        """The app, for an item's history."""
        return f"the app (process {self.pid})" if self.pid else "the app"


class Sessions:
    """The open sessions."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, pid: int) -> Session:
        """A new session."""
        session = Session(secrets.token_hex(8), pid)
        self._open[session.id] = session
        return session

    def close(self, session: Session) -> None:
        """Its connection has ended; claims under it are refused from now on."""
        self._open.pop(session.id, None)
        session.closed.set()

    def get(self, session: str) -> Session:
        """The open session with this id. Raises SessionNotOpen."""
        found = self._open.get(session)
        if found is None:
            raise SessionNotOpen(session)
        return found
