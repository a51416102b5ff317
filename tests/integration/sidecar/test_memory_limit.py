"""The worst input that the API allows, to a sidecar with the memory that its manifest gives it: it survives."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.faults.memory_cgroup import MemoryCgroup
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Answer, Sidecar, at_once, post

MB = 1024 * 1024
LONGEST = 15 * MB


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


MIB = 1024 * 1024
LONGEST_STEP = 2 * MIB - 1024
"""The items that follow the claims of one request may have 2 MiB together."""
MOST_CONTROL_CHARACTERS = (2 * MIB + 4096) // 5
"""In a text of 1 MiB. One more, and the sidecar sends it as base64."""


def half_of_control_characters(count: int) -> bytes:
    """1 MiB, of which so many bytes become six in a JSON text."""
    return b"\x01" * count + b"x" * (MIB - count)


@dataclass(frozen=True)
class Unread:
    """Items of streams that no client reads, and the field of a claim that has their payload."""

    payload: Callable[[], bytes]
    count: int
    field: str = "text"


STREAMS = 24
EACH = 1000 * (STREAMS + 1)
"""As many small items as there must be so that each stream fills its window: its lines fit into no socket."""
UNREAD = {
    "the longest that grows sixfold": Unread(lambda: b"\x01" * 1365, EACH),
    "one byte longer": Unread(lambda: b"\x01" * 1366, EACH, "payload_base64"),
    "1 MiB that grows threefold": Unread(lambda: half_of_control_characters(MOST_CONTROL_CHARACTERS), 80),
    "1 MiB that grows no more": Unread(
        lambda: half_of_control_characters(MOST_CONTROL_CHARACTERS + 1), 80, "payload_base64"
    ),
    "1 MiB of control characters": Unread(lambda: b"\x01" * MIB, 80, "payload_base64"),
    "1 MiB of wide text": Unread(lambda: WIDE + b"x" * (MIB - len(WIDE)), 80),
}


@pytest.mark.parametrize("name", UNREAD)
def test_many_streams_that_are_not_read(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, name: str
) -> None:
    unread = UNREAD[name]
    payload = unread.payload()
    queue.set_policy(Policy(busy_expiry=3600.0))
    for start in range(0, unread.count, 1000):
        queue.enqueue_many([payload] * min(1000, unread.count - start))

    def work_on_one() -> None:
        (claim,) = eventually_sync(lambda: limited.claim(1, encoding="text"))
        assert unread.field in claim
        assert eventually_sync(lambda: limited.outcomes("done", claim["token"])) == ["done"]

    work_on_one()  # the size of the payloads is known from now on
    streams = [limited.open_stream(window=1000) for _ in range(STREAMS)]
    eventually_sync(lambda: limited.metric('claimq_sidecar_given_back_items_total{cause="unread"}') > 0)
    for _ in range(5):
        work_on_one()
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
    for stream in streams:
        stream.close()
    rest = {**dict.fromkeys(State, 0), State.MAIN: unread.count - 6}
    eventually_sync(lambda: queue.lengths() == rest, why="all items come back")
    assert limited.info["in_flight"] == 0
    stats = queue.stats()
    assert (stats["done"], stats["crashes"]) == (6, 0)


FOLLOWERS: dict[str, Callable[[], bytes]] = {
    "a text": lambda: b'{"text":"' + b"x" * LONGEST_STEP + b'"}',
    "a wide text": lambda: b'{"text":"' + WIDE + b"x" * (LONGEST_STEP - len(WIDE)) + b'"}',
    "wide texts": lambda: b",".join([b'{"text":"' + WIDE + b"x" * 2000 + b'"}'] * 1000),
    "control characters": lambda: b'{"payload_base64":"' + b"AQEB" * (LONGEST_STEP // 3) + b'"}',
    "wide escapes": lambda: b'{"text":"' + b"\\ud83d\\ude00" * (LONGEST_STEP // 4) + b'"}',
    "escapes": lambda: b'{"text":"' + b"\\u0001" * LONGEST_STEP + b'"}',
    "numbers": lambda: b'{"payload":[' + b"1e9," * 150_000 + b"0]}",
    "objects": lambda: b'{"payload":[' + b'{"a":{}},' * 70_000 + b"0]}",
}
"""The items that follow a claim, in several forms: as large as one step takes."""


@pytest.mark.parametrize("name", FOLLOWERS)
def test_done_with_followers_of_large_payloads(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, name: str
) -> None:
    followers = FOLLOWERS[name]()
    queue.set_policy(Policy(busy_expiry=3600.0, max_payload=2 * MIB))
    queue.enqueue_many(["small"] * 16)
    tokens = [claim["token"].encode() for _ in range(16) for claim in limited.claim(1)]
    forms = [("/v1/next", b'"encoding":"text","wait":0,"max":1000,'), ("/v1/verdicts", b"")] * 8
    bodies = [
        (path, b'{%s"done":[{"token":"%s","enqueue":[%s]}]}' % (more, token, followers))
        for (path, more), token in zip(forms, tokens, strict=True)
    ]
    statuses = at_once(len(bodies), lambda: post(limited, *bodies.pop()))
    assert set(statuses) <= {0, 200, 429, 503}, statuses
    assert 200 in statuses
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
    each = followers.count(b"{") if name == "wide texts" else 1

    def all_are_there() -> bool:
        """Also those of a request without a response, which the sidecar still works on."""
        done, lengths = queue.stats()["done"], queue.lengths()
        return done >= statuses.count(200) and sum(lengths.values()) == 16 + done * (each - 1)

    eventually_sync(all_are_there)
    assert (queue.stats()["crashes"], queue.length(State.FAILED), limited.info["ready"]) == (0, 0, True)


def lost(worker: str, **fields: object) -> list[dict[str, object]]:
    """A thousand verdicts on claims that do not exist, each with the longest token."""
    tokens = (f"{worker * 280}/{number:010}.abcdefgh" for number in range(1000))
    return [{"token": token, **fields} for token in tokens]


WIDE_ERROR = "\U0001f600" + "x" * 7000


@pytest.mark.parametrize("path", ["/v1/next", "/v1/verdicts"])
def test_thousands_of_the_longest_tokens_and_errors(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, path: str
) -> None:
    queue.enqueue("a")
    verdicts = {
        "done": lost("d"),
        "fail": lost("f", error=WIDE_ERROR, detail=WIDE_ERROR),
        "requeue": lost("r", delay=1e9),
        "unclaim": lost("u"),
    }
    body = json.dumps(verdicts, ensure_ascii=False).encode()
    assert 14 * MIB < len(body) < 16 * MIB
    statuses = at_once(8, lambda: post(limited, path, body))
    assert set(statuses) <= {0, 200, 429, 503}, statuses
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
    assert limited.info["ready"]
    assert sum(queue.lengths().values()) == 1


@pytest.mark.parametrize("path", ["/v1/next", "/v1/verdicts"])
def test_followers_that_are_too_many_for_one_step_are_refused(
    limited: Sidecar, queue: BlockingQueue, cgroup: MemoryCgroup, path: str
) -> None:
    one = b'{"text":"' + WIDE + b"x" * 16_700 + b'"}'
    body = b'{"done":[{"token":"w/1.aaaaaaaa","enqueue":[%s]}]}' % b",".join([one] * 1000)
    for _ in range(20):
        assert post(limited, path, body) == 400, (cgroup.kills, cgroup.peak_mb)
    assert (cgroup.kills, limited.running.is_running) == (0, True), cgroup.peak_mb
