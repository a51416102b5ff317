"""Long-lived processes of a cluster: started apart from us, found again by anybody, stopped by number safely."""

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterkit.cgroups import Cgroup
from clusterkit.commands import LESS_COLLECTING, eventually, run
from clusterkit.errors import HarnessError
from clusterkit.layout import Layout

# The process joins the cgroup and writes its number before it becomes the program, so no moment is left in which it
# runs unmarked. `exec` keeps the number, also through nsenter and unshare, which don't fork as they are used here.
_START = 'echo 0 > "$1" && echo $$ > "$2" && exec >> "$3" 2>&1 && shift 3 && exec "$@"'
DAEMONS = "daemons"


@dataclass(frozen=True)
class Processes:
    """The daemons of one cluster, by name ("kube-apiserver", "node-1.kubelet")."""

    layout: Layout

    @property
    def cgroup(self) -> Cgroup:
        return Cgroup(self.layout.cgroup)

    def start(self, name: str, argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None) -> int:
        """Start a daemon; it outlives this process. Its output goes to logs/NAME.log. Returns its process number."""
        if self.alive(name):
            raise HarnessError(f"{name} is running already")
        self._pid_file(name).unlink(missing_ok=True)
        starter = ["setsid", "--fork", "sh", "-c", _START, "sh", self.cgroup.joining(DAEMONS)]
        run(
            [*starter, self._pid_file(name), self.log(name), *argv],
            env={**(os.environ if env is None else env), **LESS_COLLECTING},
        )
        eventually(
            f"{name} has started ({shlex.join(str(word) for word in argv)[:300]})",
            lambda: self._pid(name) is not None,
            every=0.01,
        )
        pid = self._pid(name)
        if pid is None:
            raise HarnessError(f"{name} ended at once:\n{self.tail(name)}")
        return pid

    def stop(self, name: str, *, grace: float = 10) -> None:
        """End a daemon: SIGTERM, and SIGKILL after `grace` seconds. Nothing happens when it isn't running."""
        pid = self._pid(name)
        if pid is None:
            return
        if grace > 0:
            self.cgroup.signal(pid, signal.SIGTERM)
            try:
                eventually(f"{name} has ended", lambda: not self.alive(name), timeout=grace, every=0.05)
            except HarnessError:
                pass
        self.cgroup.signal(pid, signal.SIGKILL)
        eventually(f"{name} has ended after SIGKILL", lambda: not self.alive(name), every=0.02)
        self._pid_file(name).unlink(missing_ok=True)

    def alive(self, name: str) -> bool:
        pid = self._pid(name)
        return pid is not None and self.cgroup.holds(pid) and not _is_zombie(pid)

    def pid(self, name: str) -> int:
        """The number of a running daemon; HarnessError with the end of its log when it isn't running."""
        pid = self._pid(name)
        if pid is None or not self.alive(name):
            raise HarnessError(f"{name} is not running:\n{self.tail(name)}")
        return pid

    def names(self) -> list[str]:
        return sorted(file.name.removesuffix(".pid") for file in self.layout.pids.glob("*.pid"))

    def log(self, name: str) -> Path:
        return self.layout.logs / f"{name}.log"

    def tail(self, name: str) -> str:
        """The end of its log."""
        try:
            text = self.log(name).read_text(errors="replace")
        except OSError:
            return f"({name} has no log)"
        return "\n".join(line[:600] for line in text.splitlines()[-25:])

    def _pid_file(self, name: str) -> Path:
        return self.layout.pids / f"{name}.pid"

    def _pid(self, name: str) -> int | None:
        try:
            return int(self._pid_file(name).read_text())
        except (OSError, ValueError):
            return None


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except OSError:
        return True
