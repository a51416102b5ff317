"""The inside of the fault proxy: one connection of a client, its twin to the server, and what may go wrong."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from testkit.servers.resp import Frames, Reply

SCRIPT_COMMANDS = frozenset({"EVAL", "EVALSHA", "FCALL"})
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Effect = Literal["cut", "silence", "request", "last"]


@dataclass(frozen=True)
class Request:
    """A command on its way to the server."""

    words: tuple[bytes, ...]

    @property
    def name(self) -> str:
        """The command in capitals."""
        return self.words[0].decode(errors="replace").upper() if self.words else ""


def is_script(request: Request) -> bool:
    """Whether it is a call of a script: all that changes a queue is."""
    return request.name in SCRIPT_COMMANDS


@dataclass
class Fault:
    """What is to happen to the k-th matching command."""

    k: int
    matching: Callable[[Request], bool]
    effect: Effect
    after: int = 0
    hit: Request | None = None
    """The command that it happened to; None: not yet."""

    def takes(self, request: Request) -> bool:
        """Counts a command; whether it is the one."""
        if self.hit is not None or not self.matching(request):
            return False
        self.k -= 1
        if self.k > 0:
            return False
        self.hit = request
        return True


@dataclass
class Weather:
    """What holds for all connections of a proxy."""

    faults: list[Fault] = field(default_factory=list[Fault])
    requests: list[Request] = field(default_factory=list[Request])
    keeps_ghosts: bool = False
    refuses: bool = False
    delay: float = 0.0
    bandwidth: float = 0.0
    _requests_pass: asyncio.Event = field(default_factory=asyncio.Event)
    _replies_pass: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Starts fine."""
        self.clear()

    def clear(self) -> None:
        """Everything passes."""
        self.keeps_ghosts = self.refuses = False
        self.delay = self.bandwidth = 0.0
        self.release()

    def release(self) -> None:
        """Nothing is held back any more."""
        self._requests_pass.set()
        self._replies_pass.set()

    def hold(self, requests: bool, replies: bool) -> None:
        """Holds back what goes to the server, or what comes from it, or both."""
        if requests:
            self._requests_pass.clear()
        if replies:
            self._replies_pass.clear()

    def seconds_for(self, size: int) -> float:
        """How long so many bytes take on a link of this bandwidth; no time where there is no limit."""
        return size / self.bandwidth if self.bandwidth else 0.0

    async def pass_request(self, size: int = 0) -> None:
        """Waits until so many bytes of a request may go on."""
        await asyncio.sleep(self.delay + self.seconds_for(size))
        await self._requests_pass.wait()

    async def pass_reply(self) -> None:
        """Waits until a reply may go on."""
        await asyncio.sleep(self.delay)
        await self._replies_pass.wait()


class Link:
    """One client's connection and the one to the server behind it."""

    def __init__(self, client: Ends, server: Ends, weather: Weather) -> None:
        """Both connections are open already."""
        self._from_client, self._to_client = client
        self._from_server, self._to_server = server
        self._weather = weather
        self._waiting: deque[Fault | None] = deque()  # what to do with each reply still to come
        self._is_silent = False
        self._over = asyncio.Event()
        self.is_ghost = False

    async def run(self) -> None:
        """Passes data until either side ends, or both are to be cut."""
        pumps = [asyncio.ensure_future(pump()) for pump in (self._pump_requests, self._pump_replies)]
        try:
            await self._over.wait()
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.abort()

    def abort(self) -> None:
        """Resets both connections."""
        self._to_client.transport.abort()
        self._to_server.transport.abort()
        self._over.set()

    async def _pump_requests(self) -> None:
        frames = Frames()
        try:
            while data := await self._from_client.read(65536):
                await self._weather.pass_request(len(data))
                for raw, words in frames.feed(data):
                    if not self._send_request(raw, words):
                        return
                await self._to_server.drain()
        except OSError:
            pass  # ended by a reset, as good as by its end
        await self._weather.pass_request()
        self.is_ghost = self._weather.keeps_ghosts
        if not self.is_ghost:
            self.abort()

    def _send_request(self, raw: bytes, words: Reply) -> bool:
        """Sends one command on; false when the connection is cut there."""
        request = Request(
            tuple(word for word in words if isinstance(word, bytes)) if isinstance(words, list) else ()
        )
        self._weather.requests.append(request)
        fault = next((one for one in self._weather.faults if one.takes(request)), None)
        if fault and fault.effect == "request":
            self._cut_within(raw[: fault.after])
            return False
        if fault and fault.effect == "last":
            self._weather.hold(requests=True, replies=False)
            fault = None
        self._waiting.append(fault)
        self._to_server.write(raw)
        return True

    def _cut_within(self, part: bytes) -> None:
        """What was sent before reaches the server, then an end in the middle of a command."""
        self._to_server.write(part)
        self._to_server.close()
        self._to_client.transport.abort()

    async def _pump_replies(self) -> None:
        frames = Frames()
        try:
            while data := await self._from_server.read(65536):
                await self._weather.pass_reply()
                for raw, _ in frames.feed(data):
                    if not await self._send_reply(raw):
                        return
                await self._to_client.drain()
        except OSError:
            pass  # ended by a reset, as good as by its end
        await self._weather.pass_reply()
        self.abort()

    async def _send_reply(self, raw: bytes) -> bool:
        """Sends one reply on; false when the connection is cut there."""
        is_push = raw.startswith(b">")
        fault = None if is_push or not self._waiting else self._waiting.popleft()
        if fault and fault.effect == "cut":
            self.abort()
            return False
        if fault:
            self._is_silent = True
        if not self._is_silent and not self.is_ghost:
            await self._write_reply(raw)
        return True

    async def _write_reply(self, raw: bytes) -> None:
        size = 16384 if self._weather.bandwidth else len(raw)
        for start in range(0, len(raw), size):
            piece = raw[start : start + size]
            await asyncio.sleep(self._weather.seconds_for(len(piece)))
            self._to_client.write(piece)
