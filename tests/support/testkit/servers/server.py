"""One real server: its own directory, its own socket, started in milliseconds, killed without mercy."""

import shutil
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Self

from claimq.redis_store.scripts import Script, script
from testkit.programs.places import new_directory
from testkit.programs.ports import free_port
from testkit.programs.processes import Process
from testkit.repository.lua import NAMES
from testkit.servers import binaries
from testkit.servers.resp import Connection, Reply, ReplyError, Word, Words
from testkit.servers.started import Started
from testkit.waiting import PATIENCE

if TYPE_CHECKING:
    from testkit.servers.certificates import Certificates

DEFAULTS: Mapping[str, str] = {
    "daemonize": "no",
    "save": '""',
    "appendonly": "no",
    "maxclients": "4000",
    "enable-debug-command": "local",
    "unixsocketperm": "700",
}
DURABLE: Mapping[str, str] = {"appendonly": "yes", "appendfsync": "always"}
"""Options under which an acknowledged write survives everything but the disk."""
SETTINGS: Sequence[Words] = (("CONFIG", "GET", "*"), ("ACL", "LIST"))
"""What a test may have changed, so that the server has to restart."""
EMPTYING: Sequence[Words] = (
    ("FLUSHALL",),
    ("FUNCTION", "FLUSH"),
    ("CONFIG", "RESETSTAT"),
    ("ACL", "LOG", "RESET"),
)


@cache
def _scripts() -> tuple[Script, ...]:
    """All scripts of claimq. An emptied server knows them, as one in use does: to compile those that a test calls would
    take longer than the test."""
    return tuple(script(name) for name in NAMES)


class PortTaken(RuntimeError):
    """Another program has taken a sentinel's port since it was found free; the others of its group name that port."""


class Server(Started):
    """A Valkey or Redis of a test's own. What was written survives `restart` only with `appendonly` (see DURABLE).

    Always on a Unix socket; also on a loopback port when `tcp` is set (the same port after every restart), or with
    TLS alone on that port when `tls` is set (see `certificates` for what clients need).
    """

    def __init__(
        self,
        flavour: str = "valkey",
        options: Mapping[str, str] | None = None,
        *,
        tcp: bool = False,
        tls: bool = False,
        sentinel: bool = False,
    ) -> None:
        """Does not start it. ServerMissing when the machine has no such program."""
        self.binary = binaries.find(flavour)
        self.flavour = flavour
        self.options = {**DEFAULTS, **(options or {})}
        self.is_sentinel = sentinel
        self.dir = new_directory()
        self.unix_path = self.dir / "s"
        self.log = self.dir / "log"
        self.port = free_port() if tcp or tls or sentinel else 0
        self.certificates = _new_certificates(self.dir) if tls else None
        self.process: Process | None = None
        self._first_settings: list[Reply] = []
        self._was_ready = False

    @property
    def url(self) -> str:
        """The server by its Unix socket."""
        return f"unix://{self.unix_path}?db=0"

    @property
    def tcp_url(self) -> str:
        """The server by its loopback port; ValueError when it has none."""
        if not self.port:
            raise ValueError("this server has no port: make it with tcp=True")
        scheme = "rediss" if self.certificates else "redis"
        return f"{scheme}://127.0.0.1:{self.port}/0"

    @property
    def version(self) -> tuple[int, ...]:
        """The version of the program, like (9, 1, 2)."""
        return self.binary.version

    @property
    def is_running(self) -> bool:
        """Whether the process is there (it may be paused)."""
        return self.process is not None and self.process.is_running

    def ending(self) -> str:
        """How it has ended, and the end of its log."""
        return f"{self.binary.path.name} has ended:\n{self.log_tail()}"

    def start(self, *, wait: bool = True) -> Self:
        """Starts it and waits until it answers; nothing to do when it runs. RuntimeError with its log if it cannot."""
        if self.is_running:
            return self
        config = self.dir / "conf"
        if not (self.is_sentinel and config.exists()):  # a sentinel keeps its state in there
            config.write_text("".join(f"{key} {value}\n" for key, value in self._config().items()))
        mode = ["--sentinel"] if self.is_sentinel else []
        self.unix_path.unlink(missing_ok=True)
        self.process = Process(
            [*self.binary.command, config, *mode], log=self.log, env=self.binary.env, cwd=self.dir
        )
        if wait and not self._was_ready:
            self._wait_first()
        elif wait:
            self.wait_ready()
        if wait and not self.is_sentinel:  # Redis lists its settings in another order after each start
            self._first_settings = self.calls(SETTINGS)
        return self

    def _wait_first(self) -> None:
        """Another program may have taken the port since it was found free: then it is started on another one.

        PortTaken for a sentinel: its group writes the configuration, and chooses again.
        """
        for _ in range(3):
            try:
                self.wait_ready()
            except RuntimeError as error:
                if not self.port or "Address already in use" not in str(error):
                    raise
                if self.is_sentinel:
                    raise PortTaken(str(error)) from error
                self.change_port()
                self.start(wait=False)
            else:
                self._was_ready = True
                return
        self.wait_ready()

    def change_port(self) -> None:
        """Chooses other ports for the next start, which is its first again. It must not run."""
        self.port = free_port()
        if "cluster-port" in self.options:
            self.options["cluster-port"] = str(free_port())
        for file in (self.dir / "conf", self.log):
            file.unlink(missing_ok=True)
        self._was_ready = False

    def wait_ready(self) -> None:
        """Waits until it answers PING (so not while it loads). RuntimeError with its log when it ends or never does."""
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if not self.is_running:
                raise RuntimeError(self.ending())
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"{self.binary.path.name} gives no answer in {PATIENCE} s:\n{self.log_tail()}"
                )
            time.sleep(0.001)

    def stop(self) -> None:
        """SIGTERM: it writes what its options say and ends."""
        if self.process is not None:
            self.process.terminate()

    def kill9(self) -> None:
        """SIGKILL, as a crash would."""
        if self.process is not None:
            self.process.kill9()

    def restart(self) -> None:
        """Stops it in good order and starts it again, in the same place with the same data directory."""
        self.stop()
        self.start()

    def sigstop(self) -> None:
        """Pauses it: connections stay open and nothing answers."""
        if self.process is not None:
            self.process.sigstop()

    def sigcont(self) -> None:
        """Lets it go on."""
        if self.process is not None:
            self.process.sigcont()

    def call(self, *words: Word, timeout: float = PATIENCE) -> Reply:
        """Sends one command on a connection of its own and returns the reply (texts as bytes).

        ReplyError when the server refuses it, OSError when it does not answer.
        """
        (reply,) = self.calls([words], timeout)
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def calls(self, commands: Sequence[Words], timeout: float = PATIENCE) -> list[Reply]:
        """Sends commands together on a connection of its own and returns the replies, refusals among them."""
        connection = Connection(self.unix_path, timeout)
        try:
            return connection.calls(commands)
        finally:
            connection.close()

    def empty(self) -> None:
        """Removes all data, counts, refusals and added users, and loads claimq's scripts unless it knows them all.

        A server whose settings were changed restarts.
        """
        if self.calls(SETTINGS) != self._first_settings:
            self._remove_users()
        if self.calls(SETTINGS) != self._first_settings:
            self.kill9()
            self.start()
        known: Words = ("SCRIPT", "EXISTS", *(script.sha for script in _scripts()))
        if self.calls([known, *EMPTYING]) != [[1] * len(_scripts()), *([b"OK"] * len(EMPTYING))]:
            self.calls([*(("SCRIPT", "LOAD", script.text) for script in _scripts()), *EMPTYING])

    def _remove_users(self) -> None:
        users = self.call("ACL", "USERS")
        assert isinstance(users, list)
        added = [user for user in users if isinstance(user, bytes) and user != b"default"]
        self.call("ACL", "DELUSER", "none", *added)  # the command needs a name

    def log_tail(self, lines: int = 30) -> str:
        """The end of what the server had to say."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Kills it and removes its directory."""
        self.kill9()
        shutil.rmtree(self.dir, ignore_errors=True)

    def _config(self) -> dict[str, str]:
        place = {"bind": "127.0.0.1", "unixsocket": str(self.unix_path), "dir": str(self.dir)}
        place["port"] = "0" if self.certificates else str(self.port)
        if self.certificates:
            place |= {"tls-port": str(self.port), **self.certificates.server_options()}
        if self.is_sentinel:
            own = {key: value for key, value in self.options.items() if key not in DEFAULTS}
            return {**place, "daemonize": "no", **own}
        return {**place, **self.options}

    def _answers(self) -> bool:
        try:
            return self.call("PING", timeout=1.0) == b"PONG"
        except (OSError, ReplyError):
            return False


def _new_certificates(place: Path) -> "Certificates":
    """Only for who wants TLS: the benchmarks start servers with the runtime requirements alone."""
    from testkit.servers.certificates import Certificates

    return Certificates(place)
