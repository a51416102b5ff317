"""The fsyncs of a server, noted by a library that is preloaded into it: what a power loss leaves of its file."""

import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from testkit import tiers
from testkit.programs.places import new_directory
from testkit.servers.server import Server

_SOURCE = Path(__file__).with_name("fsync_shim.c")


@functools.cache
def _library() -> Path:
    """The library, compiled once for this process. The test is skipped, loudly, on a machine without a compiler."""
    if shutil.which("cc") is None:
        tiers.skip_missing("cc: install a C compiler")
    made = new_directory() / "fsync_shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", made, _SOURCE, "-ldl"], check=True)
    return made


class NotedServer(Server):
    """A server whose fsyncs are noted. ``pause_ms``: how long each of them takes at least."""

    def __init__(
        self, flavour: str, options: Mapping[str, str], *, tcp: bool = False, pause_ms: int = 0
    ) -> None:
        super().__init__(flavour, options, tcp=tcp)
        self._notes, self._full = self.dir / "fsyncs", self.dir / "full"
        own = {
            "LD_PRELOAD": str(_library()),
            "FSYNC_NOTES": str(self._notes),
            "FSYNC_PAUSE_MS": str(pause_ms),
            "DISK_FULL": str(self._full),
        }
        self.binary = replace(self.binary, env={**self.binary.env, **own})

    def append_only_file(self) -> Path:
        """The part of the append-only file that grows."""
        (file,) = (self.dir / "appendonlydir").glob("*.incr.aof")
        return file

    def stored_bytes(self) -> int:
        """How much of that file is on the disk."""
        path, most = os.path.realpath(self.append_only_file()), 0
        for line in self._notes.read_text().splitlines() if self._notes.exists() else ():
            size, _, name = line.partition(" ")
            most = max(most, int(size)) if name == path else most
        return most

    def has_stored(self, text: bytes) -> bool:
        """Whether the first place of this text in the file is on the disk."""
        at = self.append_only_file().read_bytes().find(text)
        return 0 <= at <= self.stored_bytes() - len(text)

    def lose_power(self) -> None:
        """SIGKILL, and the file is cut where the last fsync left it: at worst, no later page is on the disk."""
        self.kill9()
        size = self.stored_bytes()
        os.truncate(self.append_only_file(), size)
        self._notes.write_text(f"{size} {os.path.realpath(self.append_only_file())}\n")

    def fill_disk(self) -> None:
        """From now on every write to a file fails for lack of space, until :meth:`free_disk`."""
        self._full.touch()

    def free_disk(self) -> None:
        """Writes succeed again."""
        self._full.unlink()


NotedFactory = Callable[..., NotedServer]
"""Of the fixture ``start_noted``: as ``start_server``, and with ``pause_ms``."""
