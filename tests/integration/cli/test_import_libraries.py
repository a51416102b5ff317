"""`claimq import` of what the real libraries wrote, as recorded in `tests/recordings/`."""

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

import claimq.blocking
from claimq.blocking import BlockingQueue
from testkit.recordings import replay
from testkit.server import Server

Claimq = Callable[..., Any]
LATER = 4_000_000_000.0


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with claimq.blocking.connect(valkey.url) as server:
        yield server.queue("q")


def keys(server: Server) -> set[str]:
    """The keys that are not the queue's."""
    found = server.call("KEYS", "*")
    assert isinstance(found, list)
    return {key.decode() for key in found if isinstance(key, bytes) and not key.startswith(b"cq:")}


def test_jobs_of_sidekiq_keep_their_ids_and_times(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "sidekiq")
    dry = on("import", "q", "--from", "sidekiq:mails", "--dry-run", "-o", "json").json
    answer = on("import", "q", "--from", "sidekiq:mails")
    assert "4 items enqueued: 2 waiting, 1 scheduled, 1 to be retried" in answer.out
    assert (dry["enqueued"], dry["delayed"]) == (4, 2)
    jobs = [cast("dict[str, Any]", item.json()) for item in queue.peek(9)]
    assert [job["args"][0] for job in jobs] == ["ann@example.com", "bob@example.com"]
    assert [job["jid"] for job in jobs] == [item.id for item in queue.peek(9)]
    retried, later = queue.items("delayed")
    assert json.loads(retried.item.payload)["error_message"] == "no such host"
    assert later.due_at == LATER
    assert keys(valkey) == {"queue:reports", "queues", "schedule"}
    assert valkey.call("ZCARD", "schedule") == 1


def test_jobs_of_rq_are_what_its_serializer_wrote(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    written = [valkey.call("HGET", f"rq:job:{name}", "data") for name in ("mail-3", "mail-1")]
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.out == (
        "q: 5 items enqueued: 4 waiting, 1 scheduled (a new queue)\n"
        "not touched: 1 deferred until another job ends\n"
    )
    assert [(item.id, item.payload) for item in queue.peek(2)] == [
        ("mail-3", zlib.decompress(cast("bytes", written[0]))),
        ("mail-1", zlib.decompress(cast("bytes", written[1]))),
    ]
    assert b"front@example.com" in queue.peek(1)[0].payload
    (later,) = queue.items("delayed")
    assert (later.item.id, later.due_at) == ("mail-5", LATER)
    assert {key for key in keys(valkey) if "mail-1" in key or "mail-3" in key} == {"rq:job:mail-1:dependents"}


def test_jobs_of_rq_in_json_are_json(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    on("import", "q", "--from", "rq:numbers")
    assert queue.peek(1)[0].json() == ["shop.add", None, [1, 2], {}]


def test_jobs_of_bullmq_are_imported_in_its_order(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "bullmq")
    answer = on("import", "q", "--from", "bullmq:mails")
    assert answer.out == (
        "q: 8 items enqueued: 5 waiting, 2 prioritized, 1 delayed (a new queue)\n"
        "not touched: 1 schedules of repeated jobs\n"
    )
    found = [(item.id, cast("dict[str, Any]", item.json())) for item in queue.peek(9)]
    assert [(item_id, job["data"].get("to")) for item_id, job in found] == [
        ("mails:7", "last@example.com"),
        ("mails:1", "ann@example.com"),
        ("mails:2", "bob@example.com"),
        ("mails:order-17", "own@example.com"),
        (found[4][0], None),
        ("mails:5", "urgent@example.com"),
        ("mails:6", "slow@example.com"),
    ]
    assert found[1][1] == {
        "name": "send",
        "data": {"to": "ann@example.com", "subject": "Grüße"},
        "opts": {"attempts": 0},
    }
    (later,) = queue.items("delayed")
    assert later.due_at == pytest.approx(LATER, abs=1)
    assert {key for key in keys(valkey) if key.startswith("bull:mails:") and key[11:12].isdigit()} == set()


def test_a_paused_queue_of_bullmq_is_imported(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "bullmq")
    on("import", "q", "--from", "bullmq:paused-mails", "--prefix", "bull")
    assert queue.length() == 1


def test_a_child_of_a_flow_of_bullmq_stays(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "bullmq")
    answer = on("import", "q", "--from", "bullmq:photos")
    assert answer.code == 1
    assert "1 not imported: it is the child of a flow, whose parent waits for it" in answer.err
    assert valkey.call("LLEN", "bull:photos:wait") == 1
    parent = on("import", "q", "--from", "bullmq:albums", "--dry-run")
    assert parent.out == "q: 0 items would be enqueued\nnot touched: 1 waiting for children\n"


def test_items_of_queue_q_are_what_was_enqueued(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "fifo")
    answer = on("import", "q", "--from", "fifo:mails")
    assert answer.out == "q: 5 items enqueued: 5 waiting (a new queue)\nnot touched: 1 busy\n"
    assert [item.text for item in queue.peek(9)] == ["[1,2,3]", "17", "twice", "twice", "first"]
    assert keys(valkey) == {"mails_busy"}


def test_copies_of_jobs_are_recognised(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    before = keys(valkey)
    on("import", "q", "--from", "rq:mails", "--copy")
    assert keys(valkey) == before
    assert "0 items enqueued" not in on("import", "q", "--from", "fifo:mails", "--copy").err
    moved = on("import", "q", "--from", "rq:mails")
    assert "0 items enqueued, 5 items known already" in moved.out
    assert queue.length() == 4


def test_a_job_without_its_hash_stays(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    valkey.call("RPUSH", "rq:queue:mails", "gone", "too long" * 30)
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.code == 1
    assert "2 not imported: its hash rq:job:ID is missing or has no data (for example gone)" in answer.err
    assert valkey.call("LLEN", "rq:queue:mails") == 2
    assert queue.length() == 0
