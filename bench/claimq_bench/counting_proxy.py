"""Counts the round trips and bytes of all clients that reach a server through it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_BEGINS_CONNECTION = (b"HELLO", b"AUTH", b"CLIENT", b"SELECT")


@dataclass
class Traffic:
    """What clients and server have sent so far. Calls that are sent together, before a reply, are one round trip;
    those that set a connection up are none."""

    round_trips: int = 0
    bytes: int = 0


class CountingProxy:
    """Listens on a Unix socket, in a thread of its own."""

    def __init__(self, target: Path, directory: Path) -> None:
        self.traffic = Traffic()
        self._target, self._path = target, directory / "counted"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"unix://{self._path}?db=0"

    def __enter__(self) -> Self:
        self._thread.start()
        listening = asyncio.start_unix_server(self._pass_on, str(self._path))
        asyncio.run_coroutine_threadsafe(listening, self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        links = asyncio.all_tasks() - {asyncio.current_task()}
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _pass_on(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_unix_connection(str(self._target))
        has_reply = True

        async def requests() -> None:
            nonlocal has_reply
            while sent := await client.read(2**20):
                self.traffic.round_trips += has_reply and not any(
                    word in sent[:20] for word in _BEGINS_CONNECTION
                )
                self.traffic.bytes += len(sent)
                has_reply = False
                to_server.write(sent)
            to_server.close()

        async def replies() -> None:
            nonlocal has_reply
            while sent := await server.read(2**20):
                has_reply = True
                self.traffic.bytes += len(sent)
                to_client.write(sent)
                await to_client.drain()
            to_client.close()

        with suppress(asyncio.CancelledError):  # the end of the proxy, which is no error of this callback
            await asyncio.gather(requests(), replies(), return_exceptions=True)
