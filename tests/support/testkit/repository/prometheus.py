"""Prometheus and promtool from Debian's package: a server of a test's own, and checks of rules and metrics."""

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from testkit.programs.places import new_directory
from testkit.programs.ports import free_port
from testkit.programs.processes import Process
from testkit.servers import debian
from testkit.waiting import PATIENCE, eventually_sync


def programs() -> Path:
    """The directory of prometheus and promtool. debian.PackageMissing when they cannot be had."""
    # The libraries that the package depends on are those of a page that no test opens.
    return debian.unpacked("prometheus", ["prometheus"], with_dependencies=False) / "usr/bin"


def promtool(*arguments: str | Path, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs promtool, with `given` on its standard input."""
    return subprocess.run(
        [programs() / "promtool", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


class Prometheus:
    """A server that scrapes what it is given every second. It keeps its data until the end of the test."""

    def __init__(self, jobs: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        """`jobs`: name to the port on loopback and the labels of its target."""
        self._jobs = jobs
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.log = new_directory() / "log"
        self._process: Process | None = None

    def __enter__(self) -> Self:
        folder = new_directory()
        scrapes = [
            {
                "job_name": name,
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": dict(labels)}],
            }
            for name, (port, labels) in self._jobs.items()
        ]
        config = folder / "prometheus.yml"
        config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": scrapes}))
        options = {
            "config.file": config,
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"127.0.0.1:{self._port}",
            "web.console.templates": folder,
            "web.console.libraries": folder,
        }
        command = [str(programs() / "prometheus"), *(f"--{name}={value}" for name, value in options.items())]
        self._process = Process(command, log=self.log)
        eventually_sync(self._scrapes_all, why="Prometheus scrapes all jobs", needs=[self._process])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        """Ends it."""
        if self._process is not None:
            self._process.kill9()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query; AssertionError with the server's words if it refuses the expression."""
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{query}", timeout=PATIENCE) as answer:
                body = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from None
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    def _scrapes_all(self) -> bool:
        try:
            up = {one["metric"]["job"] for one in self.query("up == 1")}
        except (OSError, AssertionError):
            return False
        return up == set(self._jobs)
