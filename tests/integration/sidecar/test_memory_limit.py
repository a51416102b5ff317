"""The worst input that the API allows, to a sidecar with the memory that its manifest gives it: it survives."""

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.memory_cgroup import MemoryCgroup
from testkit.server import Server
from testkit.sidecars import Answer, Sidecar, UnixConnection
from testkit.tiers import MISSING
from testkit.waiting import PATIENCE, eventually_sync

MB = 1024 * 1024
LIMIT = 256 * MB
LONGEST = 15 * MB


@pytest.fixture
def cgroup() -> Iterator[MemoryCgroup]:
    """Memory as the sidecar's container has it unless the manifest says otherwise."""
    try:
        made = MemoryCgroup(LIMIT)
    except RuntimeError as error:
        pytest.skip(f"{MISSING}{error}")
    yield made
    made.close()


@pytest.fixture
def limited(valkey: Server, cgroup: MemoryCgroup) -> Iterator[Sidecar]:
    """A sidecar in it, with a queue of large payloads."""
    sidecar = Sidecar(valkey.url)
    sidecar.wrapper = cgroup.wrapper
    with sidecar:
        yield sidecar


def at_once(count: int, ask: Callable[[], int]) -> list[int]:
    """The statuses of requests that are made at the same time; 0 for a connection that was closed instead."""
    statuses: list[int] = []

    def run() -> None:
        try:
            statuses.append(ask())
        except (OSError, EOFError):
            statuses.append(0)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(statuses) == count
    return statuses


def post(sidecar: Sidecar, path: str, body: bytes) -> int:
    """The status of one request."""
    with contextlib.closing(UnixConnection(sidecar.socket)) as connection:
        return connection.ask("POST", path, body).status


WIDE = "\U0001f600".encode()
BODIES: dict[str, Callable[[], bytes]] = {
    "lists": lambda: b'{"items":[{"payload":[' + b"[]," * (LONGEST // 3) + b"0]}]}",
    "objects": lambda: b'{"items":[{"payload":[' + b'{"a":{}},' * 90_000 + b"0]}]}",
    "strings": lambda: b'{"items":[{"payload":[' + b'"ab",' * 290_000 + b"0]}]}",
    "numbers": lambda: b'{"items":[{"payload":[' + b"1e9," * 290_000 + b"0]}]}",
    "commas": lambda: b'{"items":[{"text":"' + b"," * LONGEST + b'"}]}',
    "a long text": lambda: b'{"items":[{"text":"' + b"x" * LONGEST + b'"}]}',
    "a long payload": lambda: b'{"items":[{"payload":["' + b"x" * LONGEST + b'"]}]}',
    "wide text": lambda: b'{"items":[{"payload":["' + WIDE + b"x" * (LONGEST // 2) + b'"]}]}',
    "too wide": lambda: b'{"items":[{"payload":["' + WIDE + b"x" * LONGEST + b'"]}]}',
    "a wide escape": lambda: b'{"items":[{"payload":["\\ud83d\\ude00' + b"x" * LONGEST + b'"]}]}',
    "a wide escape in text": lambda: b'{"items":[{"text":"\\ud83d\\ude00' + b"x" * LONGEST + b'"}]}',
    "too wide, and wrong": lambda: b'{"wrong":1,"items":[{"payload":["' + WIDE + b"x" * LONGEST + b'"]}]}',
    "a lone surrogate": lambda: b'{"items":[{"payload":["\\ud800' + b"x" * LONGEST + b'"]}]}',
    "escapes": lambda: b'{"items":[{"payload":["' + b"\\ud83d\\ude00" * (LONGEST // 12) + b'"]}]}',
    "base64": lambda: b'{"items":[{"payload_base64":"' + b"AAAA" * (LONGEST // 4) + b'"}]}',
    "tokens": lambda: json.dumps({"tokens": ["t" * 300] * 50_000}).encode(),
    "unknown fields": lambda: b"{" + b",".join(b'"%d":0' % n for n in range(140_000)) + b"}",
}
"""Made by the test that sends it: all of them at once would fill a quarter of a gigabyte in every test process."""


@pytest.mark.parametrize("name", BODIES)
def test_sixteen_of_the_worst_bodies_at_once(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, name: str
) -> None:
    body = BODIES[name]()
    queue.set_policy(Policy(max_payload=16 * MB))
    statuses = at_once(16, lambda: post(limited, "/v1/enqueue", body))
    assert set(statuses) <= {0, 200, 400, 413, 429, 503, 507}, statuses
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
    assert limited.info["ready"]


PAYLOADS: dict[str, Callable[[], bytes]] = {
    "bytes": lambda: b"\xff" * 8 * MB,
    "lists": lambda: b"[" + b"[]," * (8 * MB // 3) + b"0]",
    "control characters": lambda: b"\x01" * 8 * MB,
    "wide": lambda: WIDE + b"x" * 8 * MB,
}


@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("encoding", ["auto", "text", "base64"])
def test_claims_of_many_items_of_eight_megabytes(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, name: str, encoding: str
) -> None:
    payload = PAYLOADS[name]()
    queue.set_policy(Policy(max_payload=9 * MB))
    for _ in range(12):
        queue.enqueue(payload)
    body = json.dumps({"max": 32, "wait": 0, "encoding": encoding}).encode()
    statuses = at_once(8, lambda: post(limited, "/v1/claim", body))
    assert set(statuses) == {200}
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
    assert limited.info["ready"]


def test_items_that_exceed_its_memory_fail_and_the_others_are_delivered(
    limited: Sidecar, valkey: Server, queue: BlockingQueue, cgroup: MemoryCgroup
) -> None:
    for size in (13, 48, 100):  # the manifest's rule allows none of them, but does not hold for bare payloads
        valkey.call("LPUSH", f"cq:{{{queue.name}}}:main", os.urandom(size * MB))
    queue.enqueue("small", id="small")
    answers: list[Answer] = []

    def all_are_done_or_failed() -> bool:
        """Claims as a client does: a 503 asks to try again, which 161 MB cause on a busy machine."""
        before = queue.snapshot()
        if before.lengths[State.MAIN] or before.lengths[State.BUSY]:
            answers.append(limited.ask("POST", "/v1/claim", {"max": 4, "wait": 5}))
            for one in answers[-1].json.get("claims", []):
                assert one["id"] == "small"
                limited.ask("POST", "/v1/done", {"tokens": [one["token"]]})
        after = queue.snapshot()
        assert (after.counters["done"], after.lengths[State.FAILED]) == (1, 3), (after, answers)
        return True

    eventually_sync(all_are_done_or_failed)
    assert {one.status for one in answers} <= {200, 503}, answers
    assert {answer.status for answer in answers} <= {200, 503}, answers
    assert "give the worker more memory" in (queue.failed_items(1)[0].item.last_error or "")
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
