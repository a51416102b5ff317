"""What the tests of the sidecar need beside the fixtures of all integration tests."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from testkit.faults.memory_cgroup import MemoryCgroup
from testkit.servers.contents import blocked_clients
from testkit.servers.server import Server
from testkit.tiers import MISSING
from testkit.workers.push_app import PushApp, Respond, StartApp
from testkit.workers.sidecars import Sidecar

LIMIT = 256 * 1024 * 1024


@pytest.fixture(scope="module")
def shared_sidecar() -> Iterator[Sidecar]:
    """One sidecar with a store of its own for all tests of a module that only ask it the wrong things."""
    with Server("valkey") as store, Sidecar(store.url) as made:
        yield made


@pytest.fixture
def waiting_claims(valkey: Server) -> Callable[[], int]:
    """How many claims wait on the shared Valkey at this moment."""
    return partial(blocked_clients, valkey)


@pytest.fixture
def cgroup() -> Iterator[MemoryCgroup]:
    """A cgroup with 256 MiB, the default memory limit of the sidecar's container."""
    try:
        made = MemoryCgroup(LIMIT)
    except RuntimeError as error:
        pytest.skip(f"{MISSING}{error}")
    yield made
    made.close()


@pytest.fixture
def limited(valkey: Server, cgroup: MemoryCgroup) -> Iterator[Sidecar]:
    """A sidecar in that cgroup."""
    sidecar = Sidecar(valkey.url)
    sidecar.wrapper = cgroup.wrapper
    with sidecar:
        yield sidecar


@pytest.fixture
def start_app() -> Iterator[StartApp]:
    """Starts apps of the test's own. All end with it."""
    mine: list[PushApp] = []

    def start(respond: Respond | None = None, *, port: int = 0, socket: Path | None = None) -> PushApp:
        mine.append(PushApp(respond, port=port, socket=socket).start())
        return mine[-1]

    yield start
    for made in mine:
        made.close()
