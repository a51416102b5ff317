"""The pytest plugin: servers as fixtures, logs of programs with a failure, and a summary that hides nothing."""

import signal
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from testkit import tiers
from testkit.faults.proxy import FaultProxy
from testkit.programs.places import remove_left_behind
from testkit.servers import binaries
from testkit.servers.binaries import ServerMissing
from testkit.servers.cluster import RedisCluster
from testkit.servers.fsyncs import NotedFactory, NotedServer
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server

if TYPE_CHECKING:
    from claimq import ReliableQueue

FLAVOURS = ("valkey", "redis7")
"""What a test that asks for `server` runs on."""
NEWEST = "redis8"
"""What the contract tests run on besides."""
ServerFactory = Callable[..., Server]
QueueDo = Callable[[Callable[["ReliableQueue"], Coroutine[Any, Any, Any]]], Any]
"""Runs a coroutine function with a queue."""
Claimq = Callable[..., Any]
"""Runs the command `claimq` with these arguments."""
StartUp = Callable[..., Any]
"""Starts `claimq up` with these queues."""
ProxyFactory = Callable[[Server], FaultProxy]
OwnServer = TypeVar("OwnServer", Server, NotedServer)
Startable = TypeVar("Startable", Server, NotedServer, RedisCluster, Sentinel)

LOGS = pytest.StashKey[list[tuple[str, Path]]]()
SHARED = pytest.StashKey[dict[str, Server]]()
CLUSTER = pytest.StashKey[RedisCluster]()


def started(make: Callable[[], Startable]) -> Startable:
    """Makes and starts servers; the test is skipped, and that is reported loudly, when the machine has none."""
    try:
        made = make()
    except ServerMissing as error:
        tiers.skip_missing(error)
    try:
        return made.start()
    except BaseException:
        made.close()
        raise


def report_log(request: pytest.FixtureRequest, name: str, log: Path) -> None:
    """Adds the log of a program to the report if the test fails."""
    request.node.stash.setdefault(LOGS, []).append((name, log))


def _note_use(request: pytest.FixtureRequest, *servers: Server) -> None:
    for server in servers:
        report_log(request, server.flavour, server.log)


def _shared(request: pytest.FixtureRequest, flavour: str) -> Server:
    """This process's one server of a flavour, empty and running whatever the test before did to it."""
    servers = request.config.stash.setdefault(SHARED, dict[str, Server]())
    if flavour not in servers:
        servers[flavour] = started(lambda: Server(flavour, tcp=True))
    server = servers[flavour]
    server.sigcont()
    server.start()
    server.empty()
    _note_use(request, server)
    return server


@pytest.fixture
def valkey(request: pytest.FixtureRequest) -> Server:
    """An empty Valkey 9, shared by the tests of this process. To change its settings: see `start_server`."""
    return _shared(request, "valkey")


@pytest.fixture
def redis7(request: pytest.FixtureRequest) -> Server:
    """An empty Redis 7, shared like `valkey`."""
    return _shared(request, "redis7")


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Server:
    """An empty server, shared like `valkey`: the test runs on Valkey 9 and on Redis 7, a contract test also on the
    newest Redis. With `--servers NAME,...` it runs on those instead."""
    return _shared(request, request.param)


class OwnServers:
    """The servers of one test, which end with it."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._started: list[Server] = []

    def start(self, make: Callable[[], OwnServer]) -> OwnServer:
        """Makes and starts one."""
        made = started(make)
        self._started.append(made)
        _note_use(self._request, made)
        return made

    def close(self) -> None:
        """Ends them."""
        for made in self._started:
            made.close()


@pytest.fixture
def own_servers(request: pytest.FixtureRequest) -> Iterator[OwnServers]:
    """Starts servers of the test's own, for `start_server` and `start_noted`."""
    mine = OwnServers(request)
    yield mine
    mine.close()


@pytest.fixture
def start_server(own_servers: OwnServers) -> ServerFactory:
    """Starts servers of the test's own: start_server("redis7", {"maxmemory": "5mb"}, tls=True). All end with it.

    `tls` needs "redis7": the Valkey of the tests is built without.
    """

    def start(
        flavour: str = "valkey",
        options: dict[str, str] | None = None,
        *,
        tcp: bool = False,
        tls: bool = False,
    ) -> Server:
        return own_servers.start(lambda: Server(flavour, options, tcp=tcp, tls=tls))

    return start


@pytest.fixture
def start_noted(own_servers: OwnServers) -> NotedFactory:
    """Starts servers of the test's own whose fsyncs are noted. All end with it."""

    def start(flavour: str, options: dict[str, str], *, tcp: bool = False, pause_ms: int = 0) -> NotedServer:
        return own_servers.start(lambda: NotedServer(flavour, options, tcp=tcp, pause_ms=pause_ms))

    return start


@pytest.fixture
def redis_cluster(request: pytest.FixtureRequest) -> RedisCluster:
    """Three empty Valkeys that share the slots, whole and well; shared by the tests of this process."""
    stash = request.config.stash
    if CLUSTER not in stash:
        stash[CLUSTER] = started(RedisCluster)
    cluster = stash[CLUSTER]
    cluster.start()
    cluster.empty()
    _note_use(request, *cluster.nodes)
    return cluster


@pytest.fixture
def sentinel(request: pytest.FixtureRequest) -> Iterator[Sentinel]:
    """A primary with two replicas, watched by three sentinels; the test's own."""
    made = started(Sentinel)
    _note_use(request, *made.servers, *made.sentinels)
    yield made
    made.close()


@pytest.fixture
def start_proxy() -> Iterator[ProxyFactory]:
    """Puts a fault proxy before a server: start_proxy(server). All end with the test."""
    mine: list[FaultProxy] = []

    def start(target: Server) -> FaultProxy:
        mine.append(FaultProxy(target.unix_path).start())
        return mine[-1]

    yield start
    for made in mine:
        made.close()


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """A handler for a signal that is to have no effect."""


def _let_programs_receive_signals() -> None:
    """Ignores SIGINT and SIGHUP by a handler where a shell (``&``, ``nohup``) made this process ignore them: what is
    ignored stays so in every program that is started, what has a handler does not."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def pytest_configure(config: pytest.Config) -> None:
    """Clears up after runs that were killed."""
    _let_programs_receive_signals()
    if not hasattr(config, "workerinput"):
        remove_left_behind()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `server` on each flavour, or on those its `servers` marker names."""
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", _flavours_of(metafunc.definition), indirect=True)


def _flavours_of(test: pytest.Item) -> Sequence[str]:
    marker = test.get_closest_marker("servers")
    if chosen := test.config.getoption("--servers"):
        return str(chosen).split(",")
    if marker:
        return tuple(map(str, marker.args))
    return (*FLAVOURS, NEWEST) if "contract" in test.path.parts else FLAVOURS


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--servers`."""
    names = ", ".join(binaries.FLAVOURS)
    parser.addoption(
        "--servers",
        help=f"run only the tests that ask for `server`, on these: NAME,... ({names})",
        default="",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--servers`, deselects the tests that do not ask for `server`, and those that are for another one only."""
    if config.getoption("--servers"):
        config.hook.pytest_deselected(items=[item for item in items if not _is_for_chosen_server(item)])
        items[:] = [item for item in items if _is_for_chosen_server(item)]


def _is_for_chosen_server(item: pytest.Item) -> bool:
    params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    marker = item.get_closest_marker("servers")
    return "server" in params and (marker is None or params["server"] in marker.args)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the shared servers."""
    for shared in config.stash.get(SHARED, dict[str, Server]()).values():
        shared.close()
    if CLUSTER in config.stash:
        config.stash[CLUSTER].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the end of the log of each program that a failed test used; keeps the whole in test-logs/."""
    report = yield
    if report.failed:
        logs = item.stash[LOGS] if LOGS in item.stash else []  # noqa: SIM401 - get() has no type for this
        for index, (name, log) in enumerate(logs):
            text = log.read_text(errors="replace") if log.exists() else "(no log)"
            kept = _keep_log(item, f"{name}-{index}", text)
            report.sections.append((f"log of {name} (all of it: {kept})", "\n".join(text.splitlines()[-30:])))
    return report


def _keep_log(item: pytest.Item, name: str, text: str) -> Path:
    test = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in item.nodeid)[-120:]
    kept = item.config.rootpath / "test-logs" / test / f"{name}.log"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text)
    return kept


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How each tier did, and which servers were missing."""
    tiers.write_summary(terminalreporter)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In continuous integration, a run without all its servers has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus != 0 or reporter is None or hasattr(session.config, "workerinput"):
        return
    if tiers.is_continuous_integration() and tiers.missing_servers(reporter):
        session.exitstatus = tiers.EXIT_SERVER_MISSING
