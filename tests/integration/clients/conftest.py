"""The client of each language, with a driver program at a real sidecar."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.faults.waiting_pipe import Pipe
from testkit.plugin import report_log
from testkit.programs.languages import Command
from testkit.workers.client_drivers import LANGUAGES, Program
from testkit.workers.sidecars import Sidecar
from testkit.workers.step_gate import Gate


@pytest.fixture(scope="module", params=LANGUAGES)
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Command:
    return LANGUAGES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture
def start(
    command: Command, sidecar: Sidecar, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Program]]:
    """Starts the driver of a client at the sidecar: start(patience=1)."""
    started: list[Program] = []
    report_log(request, "driver", tmp_path / "driver.log")

    def program(*, socket: Path = sidecar.socket, **options: Any) -> Program:
        started.append(Program(command, tmp_path / "driver.log", socket, options))
        return started[-1]

    yield program
    for one in started:
        one.process.kill9()


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path / "pipe")


@pytest.fixture
def gate(sidecar: Sidecar, tmp_path: Path) -> Iterator[Gate]:
    """Between client and sidecar."""
    with Gate(tmp_path / "gate", sidecar) as made:
        made.lost_reply = (b'"outcomes":[{',)
        made.open()
        yield made
        made.shutdown()
