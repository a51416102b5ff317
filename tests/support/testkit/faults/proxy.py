"""A bad network between a client and a server: lost replies, cuts, silence, half-open connections.

It reads the wire format, so that a fault can hit exactly the k-th command of a kind. Runs in a thread of its own;
every method of FaultProxy may be called from any test, and has taken effect when it returns.
"""

import asyncio
import concurrent.futures
import shutil
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, Literal, Self, TypeVar

from testkit.faults.links import Fault, Link, Request, Weather, is_script
from testkit.programs.places import new_directory
from testkit.servers.started import Started
from testkit.waiting import PATIENCE

T = TypeVar("T")
Direction = Literal["both", "requests", "replies"]


class FaultProxy(Started):
    """Passes everything on until a fault is asked for. Clients connect to `url` (Unix) or `tcp_url`."""

    def __init__(self, target: Path) -> None:
        """`target`: the Unix socket of the server."""
        self.target = target
        self.dir = new_directory()
        self.unix_path = self.dir / "p"
        self.port = 0
        self._weather = Weather()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="testkit-proxy", daemon=True)
        self._listeners: list[asyncio.Server] = []

    @property
    def url(self) -> str:
        """The server through the proxy's Unix socket."""
        return f"unix://{self.unix_path}?db=0"

    @property
    def tcp_url(self) -> str:
        """The server through the proxy's loopback port."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def requests(self) -> list[Request]:
        """All commands seen so far, in order."""
        return self._do(lambda: list(self._weather.requests))

    @property
    def opened(self) -> int:
        """How many connections clients have made so far."""
        return self._do(lambda: self._opened)

    @property
    def ghosts(self) -> int:
        """How many connections to the server are open whose client is gone."""
        return self._do(lambda: sum(link.is_ghost for link in self._links))

    def count(self, name: str) -> int:
        """How often a command was sent, by its name (`EVALSHA`)."""
        return sum(request.name == name.upper() for request in self.requests)

    def drop_reply(
        self, k: int = 1, *, matching: Callable[[Request], bool] = is_script, cut: bool = True
    ) -> Fault:
        """The reply of the k-th matching command from now is lost; the server has carried the command out.

        Its connection is cut then, or stays open and silent forever with `cut=False`.
        """
        return self._arm(Fault(k, matching, "cut" if cut else "silence"))

    def cut_request(
        self, k: int = 1, *, after: int = 0, matching: Callable[[Request], bool] = is_script
    ) -> Fault:
        """The connection is cut when `after` bytes of the k-th matching command from now have reached the server."""
        return self._arm(Fault(k, matching, "request", after))

    def lose_call(
        self, chance: Random, *, naming: str, only_reply: bool, on_hit: Callable[[], None]
    ) -> Fault:
        """One of the next six calls of scripts that have this text ends without a reply. The server has carried it out
        (`only_reply`), or has got at most a part of it. `on_hit` is called then, in the proxy's thread.
        """
        left = iter(range(chance.randint(0, 5), -1, -1))

        def is_next(request: Request) -> bool:
            has_text = is_script(request) and any(naming.encode() in word for word in request.words)
            if not has_text or next(left):
                return False
            on_hit()
            return True

        if only_reply:
            return self.drop_reply(matching=is_next)
        return self.cut_request(matching=is_next, after=chance.randint(0, 100))

    def black_hole_after(self, k: int = 1, *, matching: Callable[[Request], bool] = is_script) -> Fault:
        """The k-th matching command from now is the last that reaches the server: `black_hole("requests")` follows."""
        return self._arm(Fault(k, matching, "last"))

    def _arm(self, fault: Fault) -> Fault:
        self._do(lambda: self._weather.faults.append(fault))
        return fault

    def cut(self) -> None:
        """Resets all connections now. New ones are welcome."""
        self._do(self._abort_all)

    def black_hole(self, direction: Direction = "both") -> None:
        """Nothing passes any more, in one direction or both, and neither side notices; `heal` lets it pass again."""
        self._do(
            lambda: self._weather.hold(direction in {"both", "requests"}, direction in {"both", "replies"})
        )

    def ghost(self) -> None:
        """From now the server does not learn that a client went away: what a bad middlebox does."""
        self._do(lambda: setattr(self._weather, "keeps_ghosts", True))

    def release(self) -> None:
        """Ends a `black_hole` but no other fault: what was held back passes. Ghosts stay possible."""
        self._do(self._weather.release)

    def delay(self, seconds: float) -> None:
        """Every piece of data waits so long, each way."""
        self._do(lambda: setattr(self._weather, "delay", seconds))

    def narrow(self, bytes_per_second: float) -> None:
        """A slow link: so many bytes a second, each way."""
        self._do(lambda: setattr(self._weather, "bandwidth", bytes_per_second))

    def refuse(self) -> None:
        """Closes new connections at once, and all that there are: the server seems down."""
        self._do(lambda: setattr(self._weather, "refuses", True))
        self.cut()

    def turn_away(self) -> None:
        """Closes new connections at once; those that there are go on: the server's name resolves no more."""
        self._do(lambda: setattr(self._weather, "refuses", True))

    def heal(self) -> None:
        """Good weather: all passes again, what was held back first. Ghosts stay until `cut`; armed faults too."""
        self._do(self._weather.clear)

    def start(self) -> Self:
        """Begins to listen."""
        self._thread.start()
        self._await(self._listen())
        return self

    def close(self) -> None:
        """Ends all connections and the thread."""
        if self._loop.is_closed():
            return
        self._await(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _abort_all(self) -> None:
        for link in list(self._links):
            link.abort()

    async def _listen(self) -> None:
        on_path = await asyncio.start_unix_server(self._serve, self.unix_path)
        on_port = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = on_port.sockets[0].getsockname()[1]
        self._listeners = [on_path, on_port]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._opened += 1
        try:
            if self._weather.refuses:
                return
            server = await asyncio.open_unix_connection(self.target)
            link = Link((reader, writer), server, self._weather)
            self._links.add(link)
            try:
                await link.run()
            finally:
                self._links.discard(link)
        except (OSError, asyncio.CancelledError):
            pass  # the server is down, or the proxy closed: so is this connection
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _end(self) -> None:
        # The listeners close when no client is being accepted: asyncio would lose its socket.
        self._weather.refuses = True
        self._abort_all()
        for task in self._tasks:
            task.cancel()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        for listener in self._listeners:
            listener.close()

    def _do(self, change: Callable[[], T]) -> T:
        async def run() -> T:
            return change()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    def _await(self, work: Coroutine[Any, Any, None]) -> None:
        future: concurrent.futures.Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(PATIENCE)
