"""The worst input while the store does not respond, to a sidecar with the memory that its manifest gives it."""

import json
from collections.abc import Iterator

import pytest

from testkit.memory_cgroup import MemoryCgroup
from testkit.server import Server
from testkit.sidecars import Sidecar, at_once, post

WIDE_ERROR = "\U0001f600" + "x" * 7 * 1024 * 1024
"""A text of which each character takes four bytes of memory."""


@pytest.fixture
def cut_off(limited: Sidecar, valkey: Server) -> Iterator[Sidecar]:
    """A sidecar in a cgroup whose server does not respond any more."""
    valkey.sigstop()
    yield limited
    valkey.sigcont()


def test_verdicts_that_are_retried_for_minutes(cut_off: Sidecar, cgroup: MemoryCgroup) -> None:
    bodies: list[bytes] = []
    for number in range(4):
        for other in range(2):
            fail = {"tokens": [f"w/{number}{other}"], "error": WIDE_ERROR}
            bodies.append(json.dumps(fail, ensure_ascii=False).encode())
        statuses = at_once(len(bodies), lambda: post(cut_off, "/v1/fail", bodies.pop()))
        assert set(statuses) <= {0, 429, 503}, (statuses, cgroup.peak_mb)
    assert (cgroup.kills, cut_off.running.is_running) == (0, True), cgroup.peak_mb
