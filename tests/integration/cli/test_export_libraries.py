"""`claimq export` to other queue systems: it writes what their libraries wrote, and adds no job twice."""

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import claimq.blocking
from claimq import NewItem
from claimq.blocking import BlockingQueue
from claimq.errors import StoreUnavailable
from claimq.policy import Policy
from claimq_cli.migration.target_server import TargetServer
from testkit.clock import move_clock
from testkit.recordings import replay
from testkit.server import Server

Claimq = Callable[..., Any]
Items = list[tuple[str, bytes, float | None]]
JOBS = {
    "rq": [b'["shop.add",null,[%d],{}]' % number for number in (1, 2, 1)],
    "bullmq": [b'{"name":"add","data":%d,"opts":{}}' % number for number in (1, 2, 1)],
}
LISTS = {"rq": "rq:queue:old", "bullmq": "bull:old:wait"}
START = {"rq": "rq:job:", "bullmq": "bull:old:"}


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with claimq.blocking.connect(valkey.url) as server:
        yield server.queue("q")


@pytest.fixture
def jobs(queue: BlockingQueue, system: str) -> BlockingQueue:
    """Three items that are jobs of the system, two of them with the same payload."""
    queue.enqueue_many([NewItem(payload, id=f"i{at}") for at, payload in enumerate(JOBS[system])])
    return queue


def all_items(queue: BlockingQueue) -> Items:
    """The items in main and delayed; the latter have times. Their ids are without what an import adds."""
    found = [*queue.items("main", 100), *queue.items("delayed", 100)]
    return [(one.item.id.partition("@")[0], one.item.payload, one.due_at) for one in found]


def keys(server: Server) -> set[str]:
    return {key.decode() for key in cast("list[bytes]", server.call("KEYS", "*"))}


def texts(server: Server, *words: str) -> list[str]:
    return [text.decode() for text in cast("list[bytes]", server.call(*words))]


def scores(server: Server, key: str) -> dict[str, float]:
    found = texts(server, "ZRANGE", key, "0", "-1", "WITHSCORES")
    return {name: float(score) for name, score in zip(found[::2], found[1::2], strict=True)}


def job(server: Server, key: str) -> dict[str, bytes]:
    """The fields of a job, without those that have times or a description."""
    found = cast("list[bytes]", server.call("HGETALL", key))
    fields = {name.decode(): text for name, text in zip(found[::2], found[1::2], strict=True)}
    if key.startswith("rq:"):
        fields["data"] = zlib.decompress(fields["data"])
    times = {"created_at", "enqueued_at", "description", "timestamp", "delay"}
    return {name: text for name, text in fields.items() if name not in times}


def moved_there(on: Claimq, source: str, target: Server, queue: BlockingQueue) -> Items:
    """Imports what a library wrote, and exports it to another server."""
    on("import", "q", "--from", source)
    items = all_items(queue)
    words = ["--to", source, "--target", target.url, "--state", "main", "--state", "delayed"]
    assert on("export", "q", *words).out == f"q: {len(items)} items exported\n"
    return items


def moved_back(on: Claimq, source: str, server: Server, target: Server, queue: BlockingQueue) -> Items:
    server.empty()
    on("import", "q", "--from", source, "--source", target.url)
    return all_items(queue)


def test_jobs_of_rq_are_written_as_rq_wrote_them(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue
) -> None:
    replay(valkey, "rq")
    valkey.call("DEL", "rq:job:mail-1:dependents")  # or it would stay
    waiting = texts(valkey, "LRANGE", "rq:queue:mails", "0", "-1")
    recorded = {name: job(valkey, f"rq:job:{name}") for name in [*waiting, "mail-5"]}
    items = moved_there(on, "rq:mails", redis7, queue)
    assert keys(redis7) == {
        "rq:queues", "rq:queue:mails", "rq:scheduled:mails", *(f"rq:job:{name}" for name in recorded),
    }  # fmt: skip
    assert texts(redis7, "SMEMBERS", "rq:queues") == ["rq:queue:mails"]
    assert texts(redis7, "LRANGE", "rq:queue:mails", "0", "-1") == waiting
    assert scores(redis7, "rq:scheduled:mails") == {"mail-5": 4_000_000_000}
    for name, fields in recorded.items():
        written = job(redis7, f"rq:job:{name}")
        assert written.keys() == {"status", "origin", "data", "timeout"}
        assert written == {field: fields[field] for field in written} | {"timeout": b"180"}
    assert moved_back(on, "rq:mails", valkey, redis7, queue) == items


def test_jobs_of_bullmq_are_written_as_bullmq_wrote_them(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue
) -> None:
    replay(valkey, "bullmq")
    names = ["wait", "prioritized", "delayed", "marker"]
    lists = {name: texts(valkey, "LRANGE", f"bull:mails:{name}", "0", "-1") for name in names[:1]}
    sets = {name: scores(valkey, f"bull:mails:{name}") for name in names[1:]}
    ids = [*lists["wait"], *sets["prioritized"], *sets["delayed"]]
    recorded = {name: job(valkey, f"bull:mails:{name}") for name in ids}
    items = moved_there(on, "bullmq:mails", redis7, queue)
    assert keys(redis7) == {f"bull:mails:{name}" for name in [*ids, *names, "meta", "id", "pc", "events"]}
    assert texts(redis7, "LRANGE", "bull:mails:wait", "0", "-1") == lists["wait"]
    assert {name: scores(redis7, f"bull:mails:{name}") for name in names[1:]} == sets
    assert {name: job(redis7, f"bull:mails:{name}") for name in ids} == recorded
    assert (redis7.call("GET", "bull:mails:id"), redis7.call("GET", "bull:mails:pc")) == (b"7", b"2")
    assert texts(redis7, "HGETALL", "bull:mails:meta") == ["opts.maxLenEvents", "10000"]
    events = [
        dict(zip(one[1][::2], one[1][1::2], strict=True))[b"event"]
        for one in cast("list[Any]", redis7.call("XRANGE", "bull:mails:events", "-", "+"))
    ]
    assert (events.count(b"added"), events.count(b"waiting"), events.count(b"delayed")) == (8, 7, 1)
    assert moved_back(on, "bullmq:mails", valkey, redis7, queue) == items


def test_items_of_queue_q_are_written_as_it_wrote_them(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue
) -> None:
    replay(valkey, "fifo")
    recorded = [json.loads(entry) for entry in texts(valkey, "LRANGE", "mails_main", "0", "-1")]
    items = moved_there(on, "fifo:mails", redis7, queue)
    written = [json.loads(entry) for entry in texts(redis7, "LRANGE", "mails_main", "0", "-1")]
    assert all(entry.keys() == {"b", "t"} and isinstance(entry["t"], int) for entry in written)
    assert [str(entry["b"]) for entry in written] == [str(entry["b"]) for entry in recorded]
    again = moved_back(on, "fifo:mails", valkey, redis7, queue)
    assert [payload for _, payload, _ in again] == [payload for _, payload, _ in items]


def test_jobs_of_sidekiq_are_written_as_sidekiq_wrote_them(
    on: Claimq, valkey: Server, redis7: Server, queue: BlockingQueue
) -> None:
    replay(valkey, "sidekiq")
    valkey.call("DEL", "retry")  # its time comes while the test runs
    waiting = texts(valkey, "LRANGE", "queue:mails", "0", "-1")
    scheduled = next(iter(scores(valkey, "schedule").items()))
    items = moved_there(on, "sidekiq:mails", redis7, queue)
    assert texts(redis7, "LRANGE", "queue:mails", "0", "-1") == waiting
    assert scores(redis7, "schedule") == dict([scheduled])
    assert texts(redis7, "SMEMBERS", "queues") == ["mails"]
    assert moved_back(on, "sidekiq:mails", valkey, redis7, queue) == items


@pytest.mark.parametrize("system", ["rq", "bullmq"])
@pytest.mark.parametrize("is_sent", [False, True], ids=["before", "after"])
def test_a_job_is_added_once_when_the_export_dies_while_it_writes(
    on: Claimq,
    valkey: Server,
    jobs: BlockingQueue,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    is_sent: bool,
) -> None:
    call = TargetServer.call

    async def dying(self: TargetServer, *words: Any) -> Any:
        if is_sent:
            await call(self, *words)
        raise StoreUnavailable("dies")

    words = ["export", "q", "--to", f"{system}:old", "--remove"]
    with monkeypatch.context() as patched:
        patched.setattr(TargetServer, "call", dying)
        assert on(*words).code == 3
    jobs.enqueue(JOBS[system][0], id="i3")
    there = ", of which the target had 3 already" if is_sent else ""
    assert on(*words).out == f"q: 4 items exported and removed{there}\n"
    found = texts(valkey, "LRANGE", LISTS[system], "0", "-1")
    assert found == ["i0", "i1", "i2", "i3"][:: 1 if system == "rq" else -1]
    assert not any(jobs.lengths().values())


@pytest.mark.parametrize("system", ["rq", "bullmq"])
def test_another_job_with_the_same_id_is_neither_replaced_nor_taken_for_the_item(
    on: Claimq, valkey: Server, jobs: BlockingQueue, system: str
) -> None:
    valkey.call("HSET", f"{START[system]}i1", "name", "other", "data", "1")
    answer = on("export", "q", "--to", f"{system}:old", "--remove")
    assert answer.code == 4
    assert "the target has another job with the id i1; remove it there, or use another target" in answer.err
    assert texts(valkey, "HGETALL", f"{START[system]}i1") == ["name", "other", "data", "1"]
    assert valkey.call("EXISTS", LISTS[system]) == 0
    assert jobs.length() == 3


def test_items_whose_ids_become_one_are_one_job_only_if_they_are_equal(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    first, second, _ = JOBS["bullmq"]
    queue.enqueue_many([NewItem(first, id="old:a"), NewItem(first, id="a"), NewItem(first, id="old:b")])
    answer = on("export", "q", "--to", "bullmq:old")
    assert answer.out == "q: 3 items exported, of which the target had 1 already\n"
    assert texts(valkey, "LRANGE", "bull:old:wait", "0", "-1") == ["b", "a"]
    valkey.empty()
    queue.enqueue_many([NewItem(first, id="old:a"), NewItem(second, id="a")])
    assert "another job with the id a;" in on("export", "q", "--to", "bullmq:old", "--remove").err
    assert valkey.call("EXISTS", "bull:old:wait") == 0
    assert queue.length() == 2


def test_failed_items_with_the_same_id_are_jobs_of_their_own(
    on: Claimq, valkey: Server, queue_do: Callable[..., Any]
) -> None:
    async def fail_twice(queue: claimq.ReliableQueue) -> None:
        await queue.set_policy(Policy(id_window=60))
        for _ in range(2):
            await queue.enqueue(JOBS["rq"][0], id="same")
            await queue.fail(await queue.claim(wait=0), "broken", permanent=True)
            await move_clock(queue, 61)

    queue_do(fail_twice)
    assert (
        on("failed", "export", "q", "--to", "rq:old", "--remove").out == "q: 2 items exported and removed\n"
    )
    found = texts(valkey, "LRANGE", "rq:queue:old", "0", "-1")
    assert (found[0], found[1][:7], valkey.call("EXISTS", f"rq:job:{found[1]}")) == ("same", "same-2-", 1)


@pytest.mark.parametrize("system", ["rq", "bullmq"])
@pytest.mark.parametrize("key", ["list", "other"])
def test_a_key_of_another_type_stops_the_export_before_it_writes(
    on: Claimq, valkey: Server, jobs: BlockingQueue, system: str, key: str
) -> None:
    others = {"rq": "rq:scheduled:old", "bullmq": "bull:old:events"}
    wrong = LISTS[system] if key == "list" else others[system]
    valkey.call("SET", wrong, "a string")
    answer = on("export", "q", "--to", f"{system}:old", "--remove")
    assert answer.code == 4
    assert answer.err.startswith("claimq: the server of the target: a key")
    assert {key for key in keys(valkey) if not key.startswith("cq:")} == {wrong}
    assert jobs.length() == 3


@pytest.mark.parametrize("system", ["bullmq"])
def test_a_paused_queue_of_bullmq_gets_no_jobs(
    on: Claimq, valkey: Server, jobs: BlockingQueue, system: str
) -> None:
    valkey.call("HSET", "bull:old:meta", "paused", 1)
    answer = on("export", "q", "--to", "bullmq:old", "--remove")
    assert (answer.code, jobs.length()) == (4, 3)
    assert "the queue old of BullMQ is paused; resume it, and stop its workers instead" in answer.err


def test_new_jobs_of_bullmq_come_after_those_with_numbers_and_the_same_time(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    valkey.call("SET", "app:old:id", 5)
    due = 2_190_000_000  # scores of later times are too large to differ by 1
    valkey.call("ZADD", "app:old:delayed", due * 1000 * 4096, "3")
    queue.enqueue_many([NewItem("x", id=name, at=due) for name in ("old:12", "old:7")])
    on("export", "q", "--to", "bullmq:old", "--prefix", "app", "--job-name", "send", "--state", "delayed")
    found = scores(valkey, "app:old:delayed")
    assert sorted(found, key=lambda name: found[name]) == ["3", "12", "7"]
    assert valkey.call("GET", "app:old:id") == b"12"
    assert scores(valkey, "app:old:marker") == {"1": due * 1000}


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("rq:old", "no call as RQ's serializer writes it; add --job-name MODULE.FUNCTION"),
        ("bullmq:old", "not a JSON object with the name, data and opts of a job; add --job-name NAME"),
        ("sidekiq:old", 'not the JSON of a job of Sidekiq, with class, args, jid and the queue "old"'),
        ("fifo:old", "not UTF-8 text, which JSON cannot contain; export it to a file"),
    ],
)
def test_items_that_the_other_system_cannot_have_stop_the_export_before_it_writes(
    on: Claimq, valkey: Server, queue: BlockingQueue, target: str, said: str
) -> None:
    fitting = b'{"class":"Mail","args":[],"jid":"1","queue":"old"}' if target == "sidekiq:old" else b"text"
    jobs = {"rq:old": JOBS["rq"][0], "bullmq:old": JOBS["bullmq"][0]}
    queue.enqueue_many([NewItem(jobs.get(target, fitting), id="fits"), NewItem(b"\xff", id="odd")])
    answer = on("export", "q", "--to", target, "--remove")
    assert answer.code == 4
    assert f"1 item cannot be written: the payload is {said}" in answer.err
    assert f"nothing was exported: 1 item cannot be written to {target}" in answer.err
    dry = on("export", "q", "--to", target, "--remove", "--dry-run", "-o", "json")
    assert (dry.code, dry.json["exported"], [*dry.json["refused"].values()]) == (1, 1, [1])
    assert {key for key in keys(valkey) if not key.startswith("cq:")} == set()
    assert queue.length() == 2


def test_an_item_that_comes_later_and_does_not_fit_stays_in_the_queue(
    on: Claimq, valkey: Server, queue: BlockingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = TargetServer.call

    async def late(self: TargetServer, *words: Any) -> Any:
        queue.enqueue("text", id="late")
        return await call(self, *words)

    queue.enqueue(JOBS["rq"][0], id="i0")
    monkeypatch.setattr(TargetServer, "call", late)
    answer = on("export", "q", "--to", "rq:old", "--remove")
    assert answer.code == 4
    assert "item late and those after it are still in the queue: the payload is no call" in answer.err
    assert texts(valkey, "LRANGE", "rq:queue:old", "0", "-1") == ["i0"]
    assert [item.id for item in queue.peek(9)] == ["late"]


def test_failed_items_become_jobs_with_a_name_and_a_timeout(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    queue.enqueue_many([NewItem("a", id="i0"), NewItem("b", id="i1")])
    queue.fail(queue.claim(2), "broken", permanent=True)
    words = ["--to", "rq:old", "--job-name", "shop.add", "--job-timeout", "1h", "--remove"]
    answer = on("failed", "export", "q", *words)
    assert answer.out == "q: 2 items exported and removed\n"
    assert [job(valkey, f"rq:job:i{n}")["timeout"] for n in (0, 1)] == [b"3600", b"3600"]
    assert queue.length("failed") == 0


def test_a_dry_run_to_a_file_writes_none(on: Claimq, queue: BlockingQueue, tmp_path: Path) -> None:
    queue.enqueue_many(["a", "b"])
    assert on("export", "q", "--to", "items", "--dry-run").out == "q: 2 items would be exported\n"
    assert not (tmp_path / "items").exists()
