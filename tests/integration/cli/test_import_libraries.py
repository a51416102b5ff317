"""`claimq import` of what the real libraries wrote, as recorded in `tests/recordings/`."""

import json
import zlib
from typing import Any, cast

import pytest

import claimq
from claimq.blocking import BlockingQueue
from testkit.plugin import Claimq
from testkit.queues.looking import texts
from testkit.queues.recordings import replay
from testkit.servers.server import Server

LATER = 4_000_000_000.0


def keys(server: Server) -> set[str]:
    """The keys that are neither the queue's nor the mark of the source."""
    found = server.call("KEYS", "*")
    assert isinstance(found, list)
    others = {key.decode() for key in found if isinstance(key, bytes) and not key.startswith(b"cq:")}
    return {key for key in others if not key.endswith(":claimq-import:source")}


def own_id(item: claimq.Item) -> str:
    """The id that a job had in the other system."""
    name, _, source = item.id.rpartition("@")
    assert len(source) == 12
    return name


def test_jobs_of_sidekiq_keep_their_ids_and_times(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "sidekiq")
    dry = on("import", "q", "--from", "sidekiq:mails", "--dry-run", "-o", "json").json
    answer = on("import", "q", "--from", "sidekiq:mails")
    assert "4 items enqueued: 2 waiting, 1 scheduled, 1 to be retried" in answer.out
    assert (dry["enqueued"], dry["delayed"]) == (4, 2)
    jobs = [cast("dict[str, Any]", item.json()) for item in queue.peek(9)]
    assert [job["args"][0] for job in jobs] == ["ann@example.com", "bob@example.com"]
    assert [job["jid"] for job in jobs] == [own_id(item) for item in queue.peek(9)]
    retried, later = queue.items("delayed")
    assert json.loads(retried.item.payload)["error_message"] == "no such host"
    assert later.due_at == LATER
    assert keys(valkey) == {"queue:reports", "queues", "schedule"}
    assert valkey.call("ZCARD", "schedule") == 1


def test_jobs_of_rq_are_what_its_serializer_wrote(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    written = [valkey.call("HGET", f"rq:job:{name}", "data") for name in ("mail-3", "mail_4")]
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.out == (
        "q: 4 items enqueued: 3 waiting, 1 scheduled (a new queue)\n"
        "not touched: 1 deferred until another job ends\n"
    )
    front, _, fourth = queue.peek(9)
    assert [(own_id(item), item.payload) for item in (front, fourth)] == [
        ("mail-3", zlib.decompress(cast("bytes", written[0]))),
        ("mail_4", zlib.decompress(cast("bytes", written[1]))),
    ]
    assert b"front@example.com" in front.payload
    (later,) = queue.items("delayed")
    assert (own_id(later.item), later.due_at) == ("mail-5", LATER)


def test_a_job_of_rq_for_which_others_wait_stays(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.code == 1
    assert "1 not imported: other jobs of RQ wait for it" in answer.err
    assert valkey.call("LRANGE", "rq:queue:mails", 0, -1) == [b"mail-1"]
    assert {key for key in keys(valkey) if "mail-" in key} == {
        "rq:job:mail-1", "rq:job:mail-1:dependents", "rq:job:mail-6", "rq:job::mail-6:dependencies",
    }  # fmt: skip


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
    found = [(own_id(item), cast("dict[str, Any]", item.json())) for item in queue.peek(9)]
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
    assert texts(queue.peek(9)) == ["[1,2,3]", "17", "twice", "twice", "first"]
    assert keys(valkey) == {"mails_busy"}


def test_copies_of_jobs_are_recognised(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    replay(valkey, "rq")
    before = keys(valkey)
    on("import", "q", "--from", "rq:mails", "--copy")
    assert keys(valkey) == before
    assert "0 items enqueued" not in on("import", "q", "--from", "fifo:mails", "--copy").err
    for words in (["--dry-run"], []):
        moved = on("import", "q", "--from", "rq:mails", *words)
        assert moved.code == 1
        assert "4 not imported: the queue knows an item with its id already; --new-ids" in moved.err
    assert keys(valkey) == before
    assert queue.length() == 3


def test_a_job_without_its_hash_stays(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    valkey.call("RPUSH", "rq:queue:mails", "gone", "too long" * 30)
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.code == 1
    assert "2 not imported: its hash rq:job:ID is missing or has no data (for example gone)" in answer.err
    assert valkey.call("LLEN", "rq:queue:mails") == 2
    assert queue.length() == 0


def test_jobs_of_rq_with_a_rate_limit_stay_and_are_named(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    valkey.call("SADD", "rq:queues", "rq:queue:mails")
    valkey.call("SADD", "rq:rl-keys", "api")
    for name, status in (("slow-1", "queued"), ("slow-2", "rate_limited"), ("slow-3", "rate_limited")):
        valkey.call("HSET", f"rq:job:{name}", "data", "[]", "status", status, "rate_limit_key", "api")
    valkey.call("RPUSH", "rq:queue:mails", "slow-1")
    valkey.call("ZADD", "rq:rl:api:allowed", 1, "slow-1")
    valkey.call("ZADD", "rq:rl:api:rate_limited", 1, "slow-2", 2, "slow-3")
    answer = on("import", "q", "--from", "rq:mails")
    assert answer.code == 1
    assert "not touched: 2 held back by a rate limit (of all queues)" in answer.out
    assert "1 not imported: it has a rate limit of RQ" in answer.err
    assert queue.length() == 0


def test_what_rq_scheduler_holds_is_named(on: Claimq, valkey: Server) -> None:
    valkey.call("SADD", "rq:queues", "rq:queue:mails")
    valkey.call("ZADD", "rq:scheduler:scheduled_jobs", 1, "a", 2, "b")
    answer = on("import", "q", "--from", "rq:mails")
    assert "not touched: 2 scheduled by rq-scheduler (of all queues)" in answer.out


def test_an_iterable_job_of_sidekiq_that_has_begun_stays(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    for jid in ("a1", "b2"):
        valkey.call("LPUSH", "queue:mails", f'{{"jid":"{jid}","class":"C","args":[]}}')
    valkey.call("HSET", "it-a1", "ex", 1, "c", "17")
    answer = on("import", "q", "--from", "sidekiq:mails")
    assert (answer.code, queue.length()) == (1, 1)
    assert "1 not imported: it is an iterable job that has begun, with its cursor in it-JID" in answer.err
    assert keys(valkey) == {"queue:mails", "it-a1"}


def test_a_parent_of_bullmq_keeps_the_results_of_its_children(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    valkey.call("HSET", "bull:albums:1", "name", "n", "data", "{}")
    valkey.call("HSET", "bull:albums:1:processed", "bull:photos:1", "17")
    valkey.call("LPUSH", "bull:albums:wait", "1")
    answer = on("import", "q", "--from", "bullmq:albums")
    assert (answer.code, queue.length()) == (1, 0)
    assert "1 not imported: its children's results are in :ID:processed" in answer.err
    assert keys(valkey) == {"bull:albums:1", "bull:albums:1:processed", "bull:albums:wait"}


def test_the_newest_job_of_a_deduplication_of_bullmq_is_named(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    for name, place in (("1", "active"), ("2", "wait")):
        valkey.call("HSET", f"bull:mails:{name}", "name", "n", "data", "{}", "deid", f"d{name}")
        valkey.call("HSET", f"bull:mails:dn:d{name}", "name", "n", "data", "{}")
        valkey.call("LPUSH", f"bull:mails:{place}", name)
    answer = on("import", "q", "--from", "bullmq:mails")
    assert (answer.code, queue.length()) == (1, 0)
    assert "not touched: 1 newest of a deduplication, waiting for an active job" in answer.out
    assert "1 not imported: a newer job of its deduplication waits for its end" in answer.err


def test_jobs_that_an_earlier_bullmq_paused_come_before_newer_ones(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    for name, place in (("1", "paused"), ("2", "paused"), ("3", "wait"), ("4", "wait")):
        valkey.call("HSET", f"bull:mails:{name}", "name", "n", "data", "{}")
        valkey.call("LPUSH", f"bull:mails:{place}", name)
    on("import", "q", "--from", "bullmq:mails")
    assert [own_id(item) for item in queue.peek(9)] == ["mails:1", "mails:2", "mails:3", "mails:4"]
