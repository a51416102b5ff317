"""Sessions: a session is a long-lived connection of the app, and shows that the app is running."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from claimq.consuming.engine.permits import Permits
from claimq_sidecar.claims.item_stream import ItemStream


class SessionNotOpen(Exception):
    """The session has ended, or belongs to a sidecar that is not running any more."""

    def __init__(self, session: str) -> None:
        super().__init__(session)
        self.session = session


@dataclass(slots=True, eq=False)
class Session:
    """A session. ``closed`` is set when its connection ends. ``pid``: the app's process, 0 if unknown. ``items``: where
    its response also delivers items. ``ahead``: where the app begins items by permits.
    """

    id: str
    pid: int
    items: ItemStream | None = None
    ahead: Permits | None = None
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def who(self) -> str:
        """The app, as it is named in an item's history."""
        return f"the app (process {self.pid})" if self.pid else "the app"


class Sessions:
    """The open sessions."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open.values()))

    def open(self, pid: int) -> Session:
        """Opens a session."""
        session = Session(secrets.token_hex(8), pid)
        self._open[session.id] = session
        return session

    def close(self, session: Session) -> None:
        """Closes a session. Claims that name it are refused from now on."""
        self._open.pop(session.id, None)
        session.closed.set()

    def get(self, session: str) -> Session:
        """The open session with this id. Raises SessionNotOpen."""
        open_session = self._open.get(session)
        if open_session is None:
            raise SessionNotOpen(session)
        return open_session
