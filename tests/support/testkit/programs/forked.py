"""Programs of this repository that are forked from a process which has imported them.

A sidecar takes half a second of the processor to import, an operator more than a second; the tests start hundreds.
"""

import contextlib
import functools
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from testkit.programs.places import new_directory
from testkit.programs.processes import Process
from testkit.waiting import eventually_sync

MODULES = {
    "claimq_cli": "claimq_cli.program,claimq_cli.commands.running.worker,claimq_web.website",
    "claimq_web": "claimq_web.in_cluster",
    "claimq_sidecar": "claimq_sidecar.app",
    "claimq_operator": "claimq_operator.app",
    "testkit.workers.killed_programs": "claimq.blocking",
}
"""Program to the modules that import all that the program needs."""


class _Running:
    """What Process needs of subprocess.Popen, for a program that a template has forked."""

    def __init__(self, template: Path, wanted: Mapping[str, object]) -> None:
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(template))
        self._socket.sendall(json.dumps(wanted).encode() + b"\n")
        self._lines = self._socket.makefile("rb")
        self._ready = select.poll()
        self._ready.register(self._socket, select.POLLIN)
        self.pid = int(self._lines.readline())
        self._code: int | None = None

    def poll(self) -> int | None:
        return self._ended(0.0)

    def wait(self, timeout: float) -> int:
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, sig)

    def _ended(self, timeout: float) -> int | None:
        with self._lock:
            if self._code is None and self._ready.poll(timeout * 1000):
                self._code = int(self._lines.readline())
                self._lines.close()
                self._socket.close()
            return self._code


class ForkedProcess(Process):
    """`python -m PROGRAM` for a program of MODULES; a process like any other, which has its imports already."""

    def __init__(
        self,
        program: str,
        *arguments: str,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        errors: Path | None = None,
    ) -> None:
        """Starts it. `env` is added to the environment of this process. The log is there at once, as with Process;
        it has what the program writes to stderr too, unless `errors` is given."""
        self.command = [program, *arguments]
        self._log = log
        log.touch()
        env = env or {}
        place = {"cwd": str(cwd or Path.cwd()), "log": str(log), "errors": str(errors or log)}
        self._popen = _Running(
            _template(program, env.get("KUBECONFIG", ""))[0],
            {"arguments": arguments, "env": {**os.environ, **env}, **place},
        )


def run_forked(program: str, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a program of MODULES to its end, as subprocess.run does."""
    place = new_directory()
    with ForkedProcess(program, *arguments, log=place / "out", errors=place / "err", cwd=cwd) as process:
        code = process.wait()
    return subprocess.CompletedProcess(
        arguments, code, (place / "out").read_bytes(), (place / "err").read_bytes()
    )


@functools.cache
def _template(program: str, kubeconfig: str) -> tuple[Path, Process]:
    """The socket of this process's template of a program, and the template.

    The client of Kubernetes reads the path of its configuration from the environment when it is imported.
    """
    place = new_directory()
    words = [program, MODULES[program], str(place / "s")]
    support = str(Path(__file__).parents[2])
    process = Process(
        [sys.executable, "-P", "-m", "testkit.programs.template", *words],
        log=place / "log",
        env={"PYTHONPATH": support, "KUBECONFIG": kubeconfig},
    )

    eventually_sync((place / "s").exists, why=f"the template of {program} listens", needs=[process])
    return place / "s", process
