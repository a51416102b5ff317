"""A cgroup with a limit on memory, of version 1 or 2; what a test that crashed has left, the next one removes."""

import contextlib
import os
import re
from itertools import count
from pathlib import Path

NAME = re.compile(r"claimq-memory-([0-9]+)-[0-9]+")
_numbers = count(1)


def _memory_root() -> tuple[Path, int]:
    """The hierarchy that limits memory, and its version. Raises RuntimeError where there is none to write to."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        root = Path(where)
        is_first = kind == "cgroup" and "memory" in options.split(",")
        is_second = kind == "cgroup2" and "memory" in (root / "cgroup.controllers").read_text().split()
        if (is_first or is_second) and os.access(root / "cgroup.procs", os.W_OK):
            return root, 1 if is_first else 2
    raise RuntimeError("no cgroup hierarchy that limits memory can be written here (needs root)")


class MemoryCgroup:
    """Limits the memory of what joins it. Raises RuntimeError where that is impossible."""

    def __init__(self, limit: int) -> None:
        root, self._version = _memory_root()
        _remove_left_over(root)
        self.path = root / f"claimq-memory-{os.getpid()}-{next(_numbers)}"
        try:
            if self._version == 2:
                (root / "cgroup.subtree_control").write_text("+memory")
            self.path.mkdir()
            self._write("memory.max" if self._version == 2 else "memory.limit_in_bytes", str(limit))
            for swap in ("memory.swap.max", "memory.memsw.limit_in_bytes"):
                if (self.path / swap).exists():
                    self._write(swap, "0" if self._version == 2 else str(limit))
        except OSError as error:
            raise RuntimeError(f"a cgroup with a limit on memory cannot be made: {error}") from error

    def _write(self, name: str, text: str) -> None:
        (self.path / name).write_text(text)

    @property
    def wrapper(self) -> tuple[str, ...]:
        """A command that joins the cgroup and becomes the command of its arguments."""
        return "/bin/sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"

    @property
    def peak_mb(self) -> float:
        """The most memory it has had, in megabytes; 0 where the kernel does not say."""
        file = self.path / ("memory.peak" if self._version == 2 else "memory.max_usage_in_bytes")
        return int(file.read_text()) / 1024 / 1024 if file.exists() else 0.0

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed for want of memory."""
        file = self.path / ("memory.events" if self._version == 2 else "memory.oom_control")
        found = re.search(r"^oom_kill (\d+)$", file.read_text(), re.MULTILINE)
        return int(found[1]) if found else 0

    def close(self) -> None:
        """Removes it; what was in it has ended."""
        with contextlib.suppress(FileNotFoundError):
            self.path.rmdir()


def _remove_left_over(root: Path) -> None:
    """Removes what tests of processes that are gone have left."""
    for path in root.glob("claimq-memory-*"):
        found = NAME.fullmatch(path.name)
        if found and not Path(f"/proc/{found[1]}").exists():
            with contextlib.suppress(OSError):
                path.rmdir()
