"""`claimq import` asks everything that an enqueue can refuse before an entry leaves its place, and loses no job."""

from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from testkit.plugin import Claimq
from testkit.queues.looking import texts
from testkit.queues.old_jobs import a_job, names
from testkit.servers.server import Server

ODD_TIMES = ["-1", "1893456000000", "-62135596800", "inf", "-inf"]
"""Scores in seconds: before 1970, in milliseconds, in the year 1, and none."""
TIME = "its time is before 1970 or after the year 5138"


def dump(server: Server) -> dict[bytes, object]:
    """All keys but those of claimq, with their values."""
    keys: Any = server.call("KEYS", "*")
    mine = (b"cq:", b"{")
    return {key: server.call("DUMP", key) for key in sorted(keys) if not key.startswith(mine)}


@pytest.mark.parametrize("system", ["bullmq", "rq", "sidekiq"])
def test_a_job_with_an_odd_time_stays_and_the_others_go(
    on: Claimq, valkey: Server, queue: BlockingQueue, system: str
) -> None:
    for number, due in enumerate([*ODD_TIMES, "4000000000", "3"]):
        a_job(valkey, system, f"{number}", due=due)
    dry = on("import", "q", "--from", f"{system}:old", "--dry-run")
    answer = on("import", "q", "--from", f"{system}:old")
    for one in (dry, answer):
        assert one.code == 1
        assert f"5 not imported: {TIME}" in one.err
    assert "2 items would be enqueued" in dry.out
    assert "2 items enqueued" in answer.out
    assert sorted(names(queue)) == ["5", "6"]
    place = {"bullmq": "bull:old:delayed", "rq": "rq:scheduled:old", "sidekiq": "schedule"}[system]
    assert valkey.call("ZCARD", place) == 5
    assert "0 items enqueued" in on("import", "q", "--from", f"{system}:old").out


@pytest.mark.parametrize("system", ["bullmq", "rq", "sidekiq", "list"])
@pytest.mark.parametrize("why", ["full", "misused"])
def test_a_refused_step_goes_back_whole(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue, system: str, why: str
) -> None:
    for number in range(7):
        if system == "list":
            redis7.call("LPUSH", "old", f"{number % 3}")
        else:
            a_job(redis7, system, f"{number}", due="4000000000" if number > 4 else "")
    before = dump(redis7)
    if why == "full":
        valkey.call("CONFIG", "SET", "maxmemory", 1)
    else:
        valkey.call("SET", "cq:{q}:wake", "of another type")
    words = ["import", "q", "--from", f"{system}:old", "--source", redis7.url]
    if system == "list":
        words[3] = "list:old"
    answer = on(*words)
    assert answer.code == 4
    assert "the entries of this step are in the source again" in answer.err
    assert dump(redis7) == before
    valkey.call("CONFIG", "SET", "maxmemory", 0)
    valkey.call("DEL", "cq:{q}:wake")
    assert on(*words).code == 0
    if system == "list":
        assert texts(queue.peek(9)) == ["0", "1", "2", "0", "1", "2", "0"]
    else:
        assert names(queue) == ["0", "1", "2", "3", "4", "5", "6"]
    assert dump(redis7) == {}


def test_only_what_an_earlier_run_did_not_enqueue_goes_back(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    valkey.call("RPUSH", "{old}:claimq-import:batch", "0||0|a", "0||0|b")
    progress = ("token", "t0", "moved", "7", "queue", "q", "taken_at", queue.snapshot().now)
    valkey.call("HSET", "{old}:claimq-import:progress", *progress)
    queue.enqueue("a", id="import-t0-8")
    valkey.call("DEL", "cq:{q}:wake")
    valkey.call("SET", "cq:{q}:wake", "of another type")
    assert on("import", "q", "--from", "list:old").code == 4
    assert valkey.call("LRANGE", "old", 0, -1) == [b"b"]
    valkey.call("DEL", "cq:{q}:wake")
    on("import", "q", "--from", "list:old")
    assert texts(queue.peek(9)) == ["a", "b"]


@pytest.mark.parametrize("system", ["bullmq", "rq", "sidekiq"])
def test_jobs_of_one_name_from_two_servers_are_all_imported(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue, system: str
) -> None:
    for server in (valkey, redis7):
        for name in ("1", "2"):
            a_job(server, system, name)
        answer = on("import", "q", "--from", f"{system}:old", "--source", server.url)
        assert "2 items enqueued: 2 waiting" in answer.out
    assert names(queue) == ["1", "2", "1", "2"]
    assert len({item.id for item in queue.peek(9)}) == 4


def test_two_prefixes_of_bullmq_are_two_sources(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    for prefix in ("bull", "shop"):
        valkey.call("HSET", f"{prefix}:old:1", "name", "n", "data", "{}", "timestamp", "1")
        valkey.call("LPUSH", f"{prefix}:old:wait", "1")
        assert "1 item enqueued" in on("import", "q", "--from", "bullmq:old", "--prefix", prefix).out
    assert names(queue) == ["1", "1"]


OBLITERATED = (
    "bull:old:id",
    "bull:old:meta",
    "bull:old:events",
    "bull:old:marker",
    "bull:old:wait",
    "bull:old:1",
)
"""Keys that `obliterate()` of BullMQ removes; a user may remove all keys of the queue, with the mark of an import."""


@pytest.mark.parametrize(("is_all", "created"), [(False, "2"), (True, "1")], ids=["obliterate()", "all keys"])
def test_a_queue_that_counts_from_one_again_has_new_jobs(
    on: Claimq, valkey: Server, queue: BlockingQueue, is_all: bool, created: str
) -> None:
    for instant in ("1", created):
        a_job(valkey, "bullmq", "1", created=instant)
        valkey.call("SET", "bull:old:id", "1")
        valkey.call("HSET", "bull:old:meta", "paused", "0")
        for again in ("1 item would be enqueued", "1 item enqueued"):
            words = ["--dry-run"] if "would" in again else []
            assert again in on("import", "q", "--from", "bullmq:old", *words).out
        left: Any = valkey.call("KEYS", "*bull:old:*")
        valkey.call("DEL", *(left if is_all else OBLITERATED))
    assert names(queue) == ["1", "1"]


@pytest.mark.parametrize("system", ["bullmq", "rq", "sidekiq"])
def test_a_job_whose_id_is_known_stays_unless_it_gets_a_new_one(
    on: Claimq, valkey: Server, queue: BlockingQueue, system: str
) -> None:
    a_job(valkey, system, "1")
    on("import", "q", "--from", f"{system}:old")
    a_job(valkey, system, "1")
    a_job(valkey, system, "2")
    for words, said in ((["--dry-run"], "1 item would be enqueued"), ([], "1 item enqueued")):
        answer = on("import", "q", "--from", f"{system}:old", *words)
        assert said in answer.out
        assert answer.code == 1
        assert "1 not imported: the queue knows an item with its id already; --new-ids" in answer.err
    assert len(dump(valkey)) == (1 if system == "sidekiq" else 2)
    answer = on("import", "q", "--from", f"{system}:old", "--new-ids")
    assert (answer.code, "1 item enqueued" in answer.out) == (0, True)
    assert dump(valkey) == {}
    assert [name.startswith("import-") for name in names(queue)] == [False, False, True]


def test_two_jobs_with_one_id_in_a_source_are_not_one_item(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    for _ in range(2):
        a_job(valkey, "sidekiq", "1")
    dry = on("import", "q", "--from", "sidekiq:old", "--dry-run")
    answer = on("import", "q", "--from", "sidekiq:old")
    assert ("1 item would be enqueued" in dry.out, "1 item enqueued" in answer.out) == (True, True)
    assert valkey.call("LLEN", "queue:old") == 1
    on("import", "q", "--from", "sidekiq:old", "--new-ids")
    assert queue.length() == 2
