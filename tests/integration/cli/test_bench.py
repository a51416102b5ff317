"""`claimq bench`: measures with a queue of its own, and leaves nothing behind."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from testkit.processes import Process
from testkit.server import Server
from testkit.waiting import eventually_sync

Claimq = Callable[..., Any]


def keys(server: Server) -> list[Any]:
    return sorted(cast("list[Any]", server.call("KEYS", "*")))


@pytest.mark.parametrize("name", [(), ("mine",)])
def test_every_operation_is_measured_and_nothing_is_left(
    on: Claimq, valkey: Server, name: tuple[str, ...]
) -> None:
    on("enqueue", "mine", "a")
    before = keys(valkey)
    answer = on("bench", *name, "--items", "150", "--size", "10", "-o", "json").json
    assert (answer["items"], answer["size"], len(answer["measurements"])) == (150, 10, 7)
    for one in answer["measurements"]:
        assert one["items"] in (15, 150, 200)
        assert one["items_per_second"] > 0
        if one["median_seconds"] is not None:
            assert 0 < one["median_seconds"] <= one["p99_seconds"]
    assert keys(valkey) == before
    table = on("bench", *name, "--items", "100").out.splitlines()
    assert table[0].split() == ["measured", "items/s", "median", "ms", "p99", "ms"]
    assert len(table) == 9


def test_an_interrupted_measurement_leaves_nothing(valkey: Server, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "claimq_cli",
        "bench",
        "--redis",
        valkey.url,
        "--items",
        "1000000",
        "--size",
        "1",
    ]
    process = Process(command, log=log)
    eventually_sync(lambda: any(b"bench" in key for key in keys(valkey)))
    process.send(signal.SIGINT)
    assert process.wait() == 130
    # The reply of the call that was interrupted is kept for an hour.
    assert [key for key in keys(valkey) if b":calls:" not in key] == []


def test_more_than_a_server_can_be_expected_to_hold_is_refused(on: Claimq) -> None:
    answer = on("bench", "--items", "1000000", "--size", "1000000")
    assert answer.code == 2
    assert "more than 64 MiB; give fewer --items or a smaller --size" in answer.err
