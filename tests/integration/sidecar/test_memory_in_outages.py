"""The worst input while the store does not respond, to a sidecar with the memory that its manifest gives it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from testkit.faults.memory_cgroup import MemoryCgroup
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, UnixConnection, at_once, post

WIDE_ERROR = "\U0001f600" + "x" * 7 * 1024 * 1024
"""A text of which each character takes four bytes of memory."""
SESSIONS = 900
LONGEST_NAME = 280


@pytest.fixture
def cut_off(limited: Sidecar, valkey: Server) -> Iterator[Sidecar]:
    """A sidecar in a cgroup whose server does not respond any more."""
    valkey.sigstop()
    yield limited
    valkey.sigcont()


def test_large_verdicts_that_are_retried_in_an_outage_stay_within_the_memory(
    cut_off: Sidecar, cgroup: MemoryCgroup
) -> None:
    bodies: list[bytes] = []
    for number in range(4):
        for other in range(2):
            fail = {"tokens": [f"w/{number}{other}.aaaaaaaa"], "error": WIDE_ERROR}
            bodies.append(json.dumps(fail, ensure_ascii=False).encode())
        statuses = at_once(len(bodies), lambda: post(cut_off, "/v1/fail", bodies.pop()))
        assert set(statuses) <= {0, 429, 503}, (statuses, cgroup.peak_mb)
    assert (cgroup.kills, cut_off.running.is_running) == (0, True), cgroup.peak_mb


def connected(sidecar: Sidecar) -> UnixConnection:
    """A connection, also while many others are being accepted."""
    connection = UnixConnection(sidecar.socket)
    try:
        connection.connect()
    except BlockingIOError:
        raise AssertionError("the backlog is full") from None
    return connection


@pytest.mark.parametrize(("path", "length"), [("/v1/session", 1), ("/v1/stream", LONGEST_NAME)])
def test_sessions_that_take_over_claims_in_an_outage_stay_within_the_memory(
    cut_off: Sidecar, cgroup: MemoryCgroup, path: str, length: int
) -> None:
    with ExitStack() as opened:
        connections = [
            opened.enter_context(closing(eventually_sync(lambda: connected(cut_off))))
            for _ in range(SESSIONS)
        ]
        numbers = iter(range(SESSIONS))

        def ask() -> int:
            number = next(numbers)
            connection = connections[number]
            tokens = [f"{'w' * length}/{number:03}{other:06}.aaaaaaaa" for other in range(1000)]
            connection.request("POST", path, json.dumps({"tokens": tokens}))
            return connection.getresponse().status

        statuses = at_once(SESSIONS, ask)
        assert (cgroup.kills, cut_off.running.is_running) == (0, True), cgroup.peak_mb
        assert set(statuses) <= {0, 200, 429}
        assert 200 in statuses
