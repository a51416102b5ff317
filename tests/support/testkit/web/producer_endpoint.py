"""The endpoint for producers over a server of a test, for users whose token is their name."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from claimq_web.listening import opened, url_of
from claimq_web.producers import producer_app
from claimq_web.queues.queues import ServerQueues
from claimq_web.server import served
from claimq_web.users.access import Right
from claimq_web.users.login import Logins, Session, User
from claimq_web.website import Site
from testkit.servers.patient import open_server


class AddsOnly:
    """ann may add items to `media.thumbs`; eve may only see it."""

    async def may(self, session: Session | None, right: Right, name: str) -> bool:
        """Whether the user of the session has this right."""
        allowed = {"ann": Right.ADD, "eve": Right.LOOK}
        return session is not None and name == "media.thumbs" and allowed.get(session.user) is right

    async def visible(self, session: Session | None, names: object) -> set[str]:
        """No names."""
        return set()


async def _known(token: str, _: str) -> User | None:
    return User(token) if token in ("ann", "eve") else None


class ProducerEndpoint:
    """Serves in a thread of its own inside the block."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._listening, _ = opened("127.0.0.1:0", default="127.0.0.1:0")
        self.url = url_of(self._listening)
        self._started, self._stop = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with open_server(self._server_url) as server:
            site = Site(
                ServerQueues(server, [], dict), Logins(_known, hint=""), may_act=True, access=AddsOnly()
            )
            async with served(producer_app(site, "127.0.0.1"), self._listening):
                self._started.set()
                await self._stop.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._listening.close()
