"""The pytest plugin: servers as fixtures, their logs with a failure, and a summary that hides nothing."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.binaries import ServerMissing
from testkit.server import Server

FLAVOURS = ("valkey", "redis7")
MISSING = "SERVER MISSING: "
ServerFactory = Callable[..., Server]
LOGS = pytest.StashKey[list[Server]]()
SHARED = pytest.StashKey[dict[str, Server]]()


def start_or_skip(server: Callable[[], Server]) -> Server:
    """Makes and starts a server; the test is skipped, and that is reported loudly, when the machine has none."""
    try:
        made = server()
    except ServerMissing as error:
        pytest.skip(f"{MISSING}{error}")
    return made.start()


def _shared(request: pytest.FixtureRequest, flavour: str) -> Server:
    """This process's one server of a flavour, empty and running whatever the test before did to it."""
    servers = request.config.stash.setdefault(SHARED, {})
    server = servers.get(flavour)
    if server is None:
        server = servers[flavour] = start_or_skip(lambda: Server(flavour, tcp=True))
    server.sigcont()
    server.start()
    server.empty()
    request.node.stash.setdefault(LOGS, []).append(server)
    return server


@pytest.fixture
def valkey(request: pytest.FixtureRequest) -> Server:
    """An empty Valkey 9, shared by the tests of this process. Change no setting of it: see `start_server`."""
    return _shared(request, "valkey")


@pytest.fixture
def redis7(request: pytest.FixtureRequest) -> Server:
    """An empty Redis 7, shared like `valkey`."""
    return _shared(request, "redis7")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """An empty server: the test runs once on Valkey 9 and once on Redis 7."""
    return _shared(request, request.param)


@pytest.fixture
def start_server(request: pytest.FixtureRequest) -> Iterator[ServerFactory]:
    """Starts servers of the test's own: start_server("redis7", {"maxmemory": "5mb"}, tcp=True). All end with it."""
    started: list[Server] = []

    def start(flavour: str = "valkey", options: dict[str, str] | None = None, *, tcp: bool = False) -> Server:
        made = start_or_skip(lambda: Server(flavour, options, tcp=tcp))
        started.append(made)
        request.node.stash.setdefault(LOGS, []).append(made)
        return made

    yield start
    for made in started:
        made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `server` on each flavour, or on those its `servers` marker names."""
    if "server" in metafunc.fixturenames:
        marker = metafunc.definition.get_closest_marker("servers")
        metafunc.parametrize("server", marker.args if marker else FLAVOURS, indirect=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the shared servers."""
    for shared in config.stash.get(SHARED, {}).values():
        shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the end of the log of each server that a failed test used; keeps the whole in test-logs/."""
    report = yield
    if report.failed:
        for index, used in enumerate(item.stash.get(LOGS, [])):
            kept = _keep_log(item, used, index)
            report.sections.append((f"log of {used.flavour} (all of it: {kept})", used.log_tail()))
    return report


def _keep_log(item: pytest.Item, used: Server, index: int) -> Path:
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in item.nodeid)[-120:]
    kept = item.config.rootpath / "test-logs" / name / f"{used.flavour}-{index}.log"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(used.log.read_text(errors="replace") if used.log.exists() else "")
    return kept
