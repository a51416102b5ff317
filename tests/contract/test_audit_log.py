"""The audit log of a queue has what people did by hand, bounded, as long as the queue exists."""

import json

import pytest

import claimq
from claimq import AuditRecord, ReliableQueue, StoreMisused
from claimq.redis_store.connection import Connection
from testkit.servers.server import Server


async def test_entries_are_listed_newest_first(queue: ReliableQueue) -> None:
    await queue.record_action("ann@host", "pause")
    await queue.record_action("bob@host", "remove failed", "error contains timeout", count=12)
    now = (await queue.snapshot()).now
    newest, first = await queue.audit_log()
    assert newest == AuditRecord(newest.at, "bob@host", "remove failed", "error contains timeout", 12)
    assert first == AuditRecord(first.at, "ann@host", "pause", "", None)
    assert first.at <= newest.at <= now <= first.at + 60
    assert [one.action for one in await queue.audit_log(1, offset=1)] == ["pause"]
    assert await queue.audit_log(0) == []


async def test_the_log_cuts_long_texts(server: Server, queue: ReliableQueue) -> None:
    longest = '"\\\x00\u20ac\ud800'
    for number in range(3):
        await queue.record_action(longest * 30, longest * 20, longest * 100 + str(number), count=number)
    log = await queue.audit_log(2000)
    assert [one.count for one in log] == [2, 1, 0]
    assert {(len(one.actor), len(one.action), len(one.target)) for one in log} == {(128, 64, 400)}
    assert log[0].actor.startswith('"\\\x00\u20ac?"')
    lines = server.call("LRANGE", "cq:{q}:audit", 0, 0)
    assert isinstance(lines, list)
    assert isinstance(lines[0], bytes)
    assert len(lines[0]) < 4096 + 20


async def fill(server: Server, key: str, count: int, at: int) -> None:
    lines = [f'{at} {{"action":"old {number}"}}' for number in range(count)]
    for begin in range(0, count, 1000):
        server.call("LPUSH", key, *lines[begin : begin + 1000])


async def test_what_is_added_pushes_out_nothing_that_was_changed(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.record_action("ann", "flush")
    for number in range(1003):
        await queue.record_action("mallory", "enqueue", count=number, adds=True)
    log = await queue.audit_log(2000)
    assert [one.count for one in log if one.actor == "mallory"] == [*range(1002, 2, -1)]
    assert [one.action for one in log if one.actor == "ann"] == ["flush"]
    assert await queue.audit_log(2, offset=999) == log[999:]
    assert server.call("LLEN", "cq:{q}:added") == 1000


async def test_entries_of_the_last_month_stay_up_to_ten_thousand(
    server: Server, queue: ReliableQueue
) -> None:
    now = int((await queue.snapshot()).now * 1000)
    await fill(server, "cq:{q}:audit", 9999, now)
    for _ in range(3):
        await queue.record_action("ann", "pause")
    assert server.call("LLEN", "cq:{q}:audit") == 10_000
    assert (await queue.audit_log(1, offset=9999))[0].action == "old 2"


async def test_older_entries_leave_when_there_are_more_than_a_thousand(
    server: Server, queue: ReliableQueue
) -> None:
    now = int((await queue.snapshot()).now * 1000)
    await fill(server, "cq:{q}:audit", 1001, now - 31 * 24 * 3600 * 1000)
    await queue.record_action("ann", "pause")
    assert server.call("LLEN", "cq:{q}:audit") == 1000
    await queue.record_action("ann", "resume")
    assert [one.action for one in await queue.audit_log(3)] == ["resume", "pause", "old 1000"]
    assert server.call("LLEN", "cq:{q}:audit") == 1000


async def test_a_flush_keeps_the_log_and_deleting_the_queue_removes_it(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a")
    await queue.record_action("ann", "enqueue", count=1, adds=True)
    await queue.record_action("ann", "flush")
    await queue.flush()
    assert {one.action for one in await queue.audit_log()} == {"flush", "enqueue"}
    await queue.delete()
    assert await queue.audit_log() == []
    assert server.call("EXISTS", "cq:{q}:audit", "cq:{q}:added") == 0


async def test_a_call_whose_reply_was_lost_is_recorded_once(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Connection.run

    async def run_twice(self: Connection, name: str, *words: object, **options: object) -> object:
        await real(self, name, *words, **options)  # type: ignore[arg-type]  # passed on as they came
        return await real(self, name, *words, **options)  # type: ignore[arg-type]  # passed on as they came

    monkeypatch.setattr(Connection, "run", run_twice)
    await queue.record_action("ann", "pause")
    assert len(await queue.audit_log()) == 1


async def test_what_another_client_put_into_the_log_stops_no_reader(
    server: Server, queue: ReliableQueue
) -> None:
    strange = [
        b"",
        b"x",
        b"1000 {}",
        b"1000 [1]",
        b"\xff \xff",
        b"2000 " + json.dumps({"actor": 5, "count": "x"}).encode(),
    ]
    server.call("LPUSH", "cq:{q}:audit", *strange, b"1 " + b"[" * 100_000)
    assert {(one.actor, one.action, one.target, one.count) for one in await queue.audit_log()} == {
        ("", "", "", None)
    }


async def test_the_script_bounds_an_entry(store: claimq.Server, queue: ReliableQueue) -> None:
    connection = store._connection
    with connection.lanes.new_call() as call, pytest.raises(StoreMisused, match="record_action"):
        await connection.run("record_action", ["cq:{q}:main"], [*call, "x" * 4097, 0])
    assert await queue.audit_log() == []


@pytest.mark.parametrize("odd", [5, None, b"x"])
async def test_anything_but_text_is_refused_by_name(queue: ReliableQueue, odd: object) -> None:
    with pytest.raises(TypeError, match=r"^actor is"):
        await queue.record_action(odd, "pause")  # type: ignore[arg-type]  # what it refuses
