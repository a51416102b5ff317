"""`claimq import` of plain lists: all entries arrive once and in order, also when it is interrupted and repeated."""

import signal
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from claimq_admin.text import count
from testkit.plugin import Claimq
from testkit.programs.forked import ForkedProcess
from testkit.queues.looking import texts
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

BATCH, PROGRESS, MARK = (f"{{old}}:claimq-import:{name}" for name in ("batch", "progress", "source"))


def payloads(queue: BlockingQueue) -> list[str]:
    return texts(queue.peek(1000))


def an_import_that_stopped(server: Server, queue: BlockingQueue, *values: str) -> None:
    """It took these entries, and perhaps enqueued them, when it was killed."""
    server.call("RPUSH", BATCH, *(f"0||0|{value}" for value in values))
    now = queue.snapshot().now
    server.call("HSET", PROGRESS, "token", "t0", "moved", "7", "queue", "q", "taken_at", now)


def test_a_list_is_moved_in_order_with_its_equal_entries(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    valkey.call("LPUSH", "old", "a", "b", "a", "a", b"\xff|\n")
    answer = on("import", "q", "--from", "list:old")
    assert answer.out == "q: 5 items enqueued: 5 waiting (a new queue)\n"
    assert [item.payload for item in queue.peek(9)] == [b"a", b"b", b"a", b"a", b"\xff|\n"]
    assert valkey.call("KEYS", "*old*") == [MARK.encode()]
    assert on("import", "q", "--from", "list:old").out == "q: 0 items enqueued\n"


def test_consumers_may_take_from_the_left(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    valkey.call("RPUSH", "old", *range(1201))
    on("import", "q", "--from", "list:old", "--next-end", "left")
    assert texts(queue.items("main", 1000)) == [str(n) for n in range(1000)]
    assert queue.length() == 1201


def test_entries_come_from_another_server(on: Claimq, redis7: Server, queue: BlockingQueue) -> None:
    redis7.call("LPUSH", "old", "a", "b")
    on("import", "q", "--from", "list:old", "--source", redis7.url, "--client", "acme")
    assert [(item.text, item.client) for item in queue.peek(9)] == [("a", "acme"), ("b", "acme")]
    assert redis7.call("KEYS", "*") == [MARK.encode()]


def test_a_dry_run_changes_nothing_and_shows_samples(on: Claimq, valkey: Server) -> None:
    valkey.call("LPUSH", "old", "a", "b\x1b[1m", "c", "d")
    answer = on("import", "q", "--from", "list:old", "--dry-run")
    assert answer.out == (
        "q: 4 items would be enqueued: 4 waiting\n  new id: a\n  new id: b\\x1b[1m\n  new id: c\n"
    )
    assert valkey.call("KEYS", "*") == [b"old"]
    assert on("import", "q", "--from", "list:old", "--dry-run", "-o", "json").json["enqueued"] == 4


def test_a_repeated_copy_adds_nothing(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    valkey.call("LPUSH", "old", "a", "a", "b")
    on("import", "q", "--from", "list:old", "--copy")
    valkey.call("LPUSH", "old", "c")  # by a producer that goes on
    answer = on("import", "q", "--from", "list:old", "--copy")
    assert "1 item enqueued, 3 items known already" in answer.out
    assert payloads(queue) == ["a", "a", "b", "c"]
    assert valkey.call("LLEN", "old") == 4


def test_a_payload_over_the_limit_stays_and_is_reported(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    queue.set_policy(Policy(max_payload=10))
    valkey.call("LPUSH", "old", "a", "x" * 11, "b", "x" * 11, "c")
    answer = on("import", "q", "--from", "list:old")
    assert answer.code == 1
    assert "2 not imported: its payload is larger than max_payload of the queue (10 bytes)" in answer.err
    assert payloads(queue) == ["a", "b", "c"]
    assert valkey.call("LLEN", "old") == 2


def test_an_import_begins_with_what_an_earlier_one_had_taken(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    an_import_that_stopped(valkey, queue, "a", "b")
    queue.enqueue("a", id="import-t0-8")  # it died before it had enqueued the other
    valkey.call("LPUSH", "old", "c")
    dry = on("import", "q", "--from", "list:old", "--dry-run")
    assert "also 2 that an import took before it stopped; the next import enqueues them" in dry.out
    answer = on("import", "q", "--from", "list:old")
    assert "2 items enqueued, 1 item known already" in answer.out
    assert payloads(queue) == ["a", "b", "c"]
    assert [item.id for item in queue.peek(9)] == ["import-t0-8", "import-t0-9", "import-t0-10"]
    assert valkey.call("KEYS", "*old*") == [MARK.encode()]


def test_what_was_taken_for_one_queue_does_not_go_to_another(
    on: Claimq, valkey: Server, queue: BlockingQueue
) -> None:
    an_import_that_stopped(valkey, queue, "a")
    answer = on("import", "other", "--from", "list:old")
    assert answer.code == 4
    assert "the queue q; first import into that queue again" in answer.err


@pytest.mark.parametrize(
    ("choice", "said", "expected"),
    [
        ("enqueue", "3 items enqueued", ["a", "b", "c"]),
        ("return", "back in the source: 2 that an import took", ["a", "b", "c"]),
        ("discard", "discarded: 2 that an import took", ["c"]),
    ],
)
def test_ids_that_may_be_forgotten_need_a_decision(
    on: Claimq, valkey: Server, queue: BlockingQueue, choice: str, said: str, expected: list[str]
) -> None:
    an_import_that_stopped(valkey, queue, "a", "b")
    valkey.call("HSET", PROGRESS, "taken_at", queue.snapshot().now - 3600)
    valkey.call("LPUSH", "old", "c")
    refused = on("import", "q", "--from", "list:old")
    assert refused.code == 4
    assert "no longer remembers their ids (id_window); add --pending enqueue" in refused.err
    assert said in on("import", "q", "--from", "list:old", "--pending", choice).out
    assert payloads(queue) == expected


def test_an_interrupted_import_says_how_to_continue(
    on: Claimq, valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    letters = list("abcdefghijkl")
    valkey.call("LPUSH", "old", *letters)
    words = ["import", "q", "--redis", valkey.url, "--from", "list:old", "--rate", "0.1"]
    with ForkedProcess("claimq_cli", *words, log=tmp_path / "log", env={}) as process:
        eventually_sync(lambda: queue.length() > 0)
        process.send(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
    said, moved = (tmp_path / "log").read_text(), queue.length()
    assert 0 < moved < len(letters)
    assert f"q: {count(moved)} enqueued: {moved} waiting" in said
    assert "interrupted; run the same command again to continue" in said
    on("import", "q", "--from", "list:old")
    assert payloads(queue) == letters


def test_the_server_of_the_source_may_be_in_the_environment(
    on: Claimq, redis7: Server, queue: BlockingQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis7.call("LPUSH", "old", "a")
    monkeypatch.setenv("CLAIMQ_SOURCE_URL", redis7.url)
    on("import", "q", "--from", "list:old")
    assert payloads(queue) == ["a"]


def test_a_limit_ends_an_import_early(on: Claimq, valkey: Server, queue: BlockingQueue) -> None:
    valkey.call("LPUSH", "old", *range(5))
    on("import", "q", "--from", "list:old", "--limit", "2")
    assert payloads(queue) == ["0", "1"]
    on("import", "q", "--from", "list:old")
    assert payloads(queue) == ["0", "1", "2", "3", "4"]


def test_a_key_of_another_type_is_an_error(on: Claimq, valkey: Server) -> None:
    valkey.call("SET", "old", "a")
    answer = on("import", "q", "--from", "list:old")
    assert answer.code == 4
    assert "the key old on the server of the source is a string and not a list" in answer.err
    assert "delete" not in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "old"], '--from "old" is neither one of list:NAME'),
        (["--from", "list:"], "is neither one of"),
        (["--from", "list:a", "--format", "csv"], "are for files"),
        (["--from", "rq:a", "--prefix", "b"], "--prefix needs --from sidekiq:NAME or bullmq:NAME"),
        (["--from", "rq:a", "--next-end", "left"], "--next-end needs --from list:KEY"),
        (["--from", "a.csv", "--copy"], "are for other queue systems, not files"),
        (["--from", "missing.csv"], "missing.csv cannot be read"),
    ],
)
def test_options_that_do_not_fit_are_refused(on: Claimq, words: list[str], said: str) -> None:
    answer = on("import", "q", *words)
    assert answer.code == 2
    assert said in answer.err
