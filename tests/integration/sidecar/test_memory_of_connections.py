"""What connections hold before and after their requests, with the least memory that a sidecar may have: it survives."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.faults.memory_cgroup import MemoryCgroup
from testkit.servers.server import Server
from testkit.tiers import MISSING
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar

MIB = 1024 * 1024
CONNECTIONS = 1000
TINY_FIELDS = b"".join(b"%x:\r\n" % number for number in range(95))
LOST = [f"{'w' * 230}/{number}.aaaaaaaa" for number in range(1000)]
"""The longest tokens, of claims that the server does not have."""


@pytest.fixture(params=[72, 128, 256])
def small(request: pytest.FixtureRequest, valkey: Server) -> Iterator[tuple[Sidecar, MemoryCgroup]]:
    """A sidecar in a cgroup of so many MiB."""
    try:
        cgroup = MemoryCgroup(request.param * MIB)
    except RuntimeError as error:
        pytest.skip(f"{MISSING}{error}")
    sidecar = Sidecar(valkey.url, memory=f"{request.param}Mi")
    sidecar.wrapper = cgroup.wrapper
    with sidecar:
        yield sidecar, cgroup
    cgroup.close()


def session(_: Sidecar) -> bytes:
    body = json.dumps({"tokens": LOST}).encode()
    return b"POST /v1/session HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body


REQUESTS: dict[str, Callable[[Sidecar], bytes]] = {
    "pipelined heads": lambda _: (
        b'POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n{"wait":60}'
        + (b"GET /v1/info HTTP/1.1\r\nhost: x\r\n" + TINY_FIELDS + b"\r\n") * 15
    ),
    "heads without an end": lambda _: b"GET /v1/info HTTP/1.1\r\nhost: x\r\n" + TINY_FIELDS,
    "tokens": session,
    "unfinished bodies": lambda _: (
        b"POST /v1/enqueue HTTP/1.1\r\nhost: x\r\ncontent-length: 65000\r\n\r\n" + b" " * 64_900
    ),
    "unfinished chunks": lambda _: (
        b"POST /v1/enqueue HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n" + b" " * 65_500
    ),
    "unread responses": lambda _: b"GET /v1/openapi.json HTTP/1.1\r\nhost: x\r\n\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
def test_what_a_thousand_connections_hold_is_bounded(small: tuple[Sidecar, MemoryCgroup], name: str) -> None:
    sidecar, cgroup = small
    request = REQUESTS[name](sidecar)
    with ExitStack() as opened:
        late = 0
        for _ in range(CONNECTIONS):
            connection = opened.enter_context(sidecar.connect())
            connection.settimeout(1.0 if late < 5 else 0.02)
            try:
                connection.sendall(request)
            except TimeoutError:  # the sidecar does not read it
                late += 1
            except (BrokenPipeError, ConnectionResetError):
                continue
        eventually_sync(lambda: not sidecar.running.is_running or sidecar.health("/healthz").status == 200)
        assert (cgroup.kills, sidecar.running.is_running) == (0, True), cgroup.peak_mb
    print(f"{name}: peak {cgroup.peak_mb:.0f} MB")
    eventually_sync(lambda: sidecar.info["sessions"] == 0, why="it serves others afterwards")
