"""The mark that every process of a cluster bears: its cgroup.

A child is in its parent's cgroup, and nothing but root can move it out; the kubelet moves containers only below the
cgroup it was given, which is below ours too. A number of a process may come back as another's; a cgroup may not.
"""

import os
import re
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clusterkit.errors import HarnessError

_ENDS_IN_SECONDS = 120
_PROCESSOR_SHARE = 8
"""A cluster's weight in units of another process group's: it holds all its pods, and a real one has nodes for them."""


@dataclass(frozen=True)
class Hierarchy:
    """One mounted cgroup tree: version 2, or one of version 1 with its controllers (or a name)."""

    mount: Path
    version: int
    controllers: frozenset[str]


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """What is mounted (`mounts`: the text of /proc/self/mounts)."""
    found: list[Hierarchy] = []
    for line in (mounts if mounts is not None else Path("/proc/self/mounts").read_text()).splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found.append(Hierarchy(Path(where), 2, frozenset()))
        elif kind == "cgroup":
            found.append(Hierarchy(Path(where), 1, frozenset(options.split(","))))
    return found


def marking() -> Hierarchy:
    """The hierarchy that marks processes: version 2 where there is one (a container then keeps its parent's place)."""
    ranked = sorted(
        hierarchies(),
        key=lambda h: (h.version != 2, "pids" not in h.controllers, "freezer" not in h.controllers),
    )
    if ranked:
        return ranked[0]
    raise HarnessError(
        "no cgroups are mounted below /sys/fs/cgroup; the kubelet needs them: boot with cgroups, or mount them"
    )


def named(part: str, mounts: Iterable[Path] | None = None) -> list[Path]:
    """Every cgroup with `part` in its name, in every hierarchy (or below `mounts`). Those of others come and go during
    the walk, so a folder that has gone is passed over: `Path.rglob` would raise."""
    roots = [hierarchy.mount for hierarchy in hierarchies()] if mounts is None else mounts
    return [
        Path(top, name)
        for root in roots
        for top, folders, _ in os.walk(root)
        for name in folders
        if part in name
    ]


@dataclass(frozen=True)
class Cgroup:
    """The tree of cgroups called `name`, in every hierarchy of the machine."""

    name: str

    def create(self, *children: str) -> None:
        """Make it, with `children` below, in every hierarchy."""
        for hierarchy in hierarchies():
            for path in (self.name, *(f"{self.name}/{child}" for child in children)):
                folder = hierarchy.mount / path
                if hierarchy.version == 2:
                    _pass_controllers_on(folder.parent)
                folder.mkdir(parents=True, exist_ok=True)
                if "cpuset" in hierarchy.controllers:
                    _inherit_cpuset(folder)
            _weigh(hierarchy.mount / self.name)

    def joining(self, child: str) -> str:
        """The file into which a process writes 0 to join the child."""
        return str(marking().mount / self.name / child / "cgroup.procs")

    def folders(self) -> Iterator[Path]:
        """Every folder of it in every hierarchy, the deepest first."""
        for hierarchy in hierarchies():
            yield from (Path(top) for top, _, _ in os.walk(hierarchy.mount / self.name, topdown=False))

    def processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self.folders():
            found |= _processes_in(folder)
        return found

    def holds(self, pid: int) -> bool:
        """Whether the process is there and one of ours."""
        try:
            places = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        except OSError:
            return False
        return any(line.split(":", 2)[2].split("/")[1:2] == [self.name] for line in places)

    def signal(self, pid: int, number: signal.Signals) -> bool:
        """Send a signal if the process is one of ours; the answer is whether it was.

        The process is held by a descriptor before it is looked at, so the number can't have become another's.
        """
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return False
        try:
            if not self.holds(pid):
                return False
            signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(handle)
        return True

    def kill(self) -> int:
        """End every process in it; the answer is how many there were. Raises HarnessError when some won't end."""
        met: set[int] = set()
        deadline = time.monotonic() + _ENDS_IN_SECONDS
        while left := self.processes():
            met |= left
            if time.monotonic() > deadline:
                raise HarnessError(f"these processes do not end, even when killed: {_described(left)}")
            for switch in {h.mount / self.name / "cgroup.kill" for h in hierarchies() if h.version == 2}:
                if switch.exists():
                    switch.write_text("1")
            for pid in left:
                self.signal(pid, signal.SIGKILL)
            time.sleep(0.05)
        return len(met)

    def remove(self) -> None:
        """Delete the empty tree. A cgroup stays busy for a moment after its last process."""
        deadline = time.monotonic() + _ENDS_IN_SECONDS
        while folders := list(self.folders()):
            for folder in folders:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise HarnessError(f"the cgroup {folder} can't be removed: {error}") from error
            if any(folder.exists() for folder in folders):
                time.sleep(0.05)


def _processes_in(folder: Path) -> set[int]:
    try:
        return {int(line) for line in (folder / "cgroup.procs").read_text().split()}
    except OSError:
        return set()


def _weigh(folder: Path) -> None:
    """Without it the kernel gives all pods of a cluster together no more than one process of the tests."""
    for name, one in (("cpu.shares", 1024), ("cpu.weight", 100)):
        if (folder / name).exists():
            (folder / name).write_text(str(one * _PROCESSOR_SHARE))


def _inherit_cpuset(folder: Path) -> None:
    """In version 1 a new cpuset is empty and takes no process until its processors are set."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text().strip():
            (folder / name).write_text((folder.parent / name).read_text())


def _pass_controllers_on(folder: Path) -> None:
    """In version 2 a cgroup has only the controllers that its parent passes on; the kubelet insists on some."""
    for controller in (folder / "cgroup.controllers").read_text().split():
        try:
            (folder / "cgroup.subtree_control").write_text(f"+{controller}")
        except OSError:
            continue  # one that can't be passed on here; the kubelet names those that it misses


def _described(pids: set[int]) -> str:
    words: list[str] = []
    for pid in sorted(pids):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()
            state = re.search(r"^State:\s+(.*)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
        except OSError:
            continue
        words.append(f"{pid} ({command[:80]}; {state[1] if state else 'state unknown'})")
    return ", ".join(words)
