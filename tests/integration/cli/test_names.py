"""Names of queues and commands: which are there, which are known, and which may be meant."""

from pathlib import Path
from typing import cast

import pytest

from claimq_cli.program import cli
from testkit.plugin import Claimq, QueueDo
from testkit.servers.server import Server

ON_A_QUEUE = [
    ["status"], ["items", "main"], ["clients"], ["item", "show", "id"], ["workers"], ["pause"],
    ["resume"], ["flush", "--yes"], ["delete", "--yes"], ["release", "w"], ["failed", "reasons"],
    ["failed", "requeue", "--all"], ["failed", "remove", "--all", "--yes"], ["policy"],
    ["url"], ["web", "--listen", "127.0.0.1:0"],
]  # fmt: skip


@pytest.mark.parametrize("words", ON_A_QUEUE, ids=" ".join)
def test_a_misspelled_queue_is_refused_with_the_one_that_is_meant(
    on: Claimq, valkey: Server, words: list[str]
) -> None:
    on("enqueue", "thumbnails", "a")
    before = valkey.call("KEYS", "*")
    group = words[:2] if words[0] in ("failed", "item") else words[:1]
    answer = on(*group, "thumbnals", *words[len(group) :])
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "claimq: there is no queue thumbnals on this server; did you mean thumbnails? (see `claimq queues`)\n"
    )
    assert valkey.call("KEYS", "*") == before


def test_enqueue_makes_a_queue_and_says_so(on: Claimq) -> None:
    assert on("enqueue", "thumbnails", "a", "-o", "json").json["created"] is True
    assert on("enqueue", "thumbnails", "a", "-o", "json").json["created"] is False
    answer = on("enqueue", "thumbnals", "a")
    assert answer.out == "thumbnals: 1 item enqueued, 1 in main (a new queue; did you mean thumbnails?)\n"


@pytest.mark.parametrize("source", ["rq:nothing", "items.jsonl"])
def test_an_import_of_nothing_creates_no_queue_and_says_so(
    on: Claimq, valkey: Server, tmp_path: Path, source: str
) -> None:
    on("enqueue", "thumbnails", "a")
    valkey.call("SADD", "rq:queues", "rq:queue:nothing")  # an empty queue
    (tmp_path / "items.jsonl").write_text("")
    before = valkey.call("KEYS", "*")
    answer = on("import", "thumbnals", "--from", source)
    assert (answer.code, answer.out) == (
        0,
        "thumbnals: 0 items enqueued (no queue was created; did you mean thumbnails?)\n",
    )
    assert on("import", "thumbnals", "--from", source, "-o", "json").json["created"] is False
    assert valkey.call("KEYS", "*") == before
    assert valkey.call("ZRANGE", "cq:queues", 0, -1) == [b"thumbnails"]


def test_no_lines_create_no_queue(on: Claimq, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("")
    answer = on("enqueue", "q", "--lines", "none.txt")
    assert answer.out == "q: 0 items enqueued, 0 in main (no queue was created)\n"


def test_a_web_page_of_several_queues_needs_all_of_them(on: Claimq) -> None:
    on("enqueue", "thumbnails", "a")
    answer = on("web", "thumbnails", "mials", "--listen", "127.0.0.1:0")
    assert (answer.code, answer.out) == (1, "")
    assert "there is no queue mials on this server" in answer.err


def test_the_url_of_a_server_that_does_not_answer_is_printed(on: Claimq, valkey: Server) -> None:
    valkey.stop()
    answer = on("url", "thumbnals")
    assert (answer.code, answer.out) == (0, f"{valkey.url}\n")


def test_a_queue_of_a_cluster_is_meant_by_its_bare_name(on: Claimq) -> None:
    on("enqueue", "team.checksums", "a")
    assert "did you mean team.checksums?" in on("items", "checksums", "main").err


def test_queues_are_listed_and_those_that_are_gone_are_forgotten(
    on: Claimq, queue_do: QueueDo, valkey: Server
) -> None:
    on("enqueue", "b", "x")
    on("enqueue", "q", "x")
    valkey.call("ZADD", "cq:queues", 0, "never-was", 0, "no name\x1b[2J")
    assert [one["queue"] for one in on("queues", "-o", "json").json["queues"]] == ["b", "q"]
    assert [one["queue"] for one in on("status", "-o", "json").json["queues"]] == ["b", "q"]
    queue_do(lambda queue: queue.delete())
    assert on("queues").out.splitlines()[2].split() == ["b", "1", "0", "0", "0"]
    assert b"never-was" not in cast("list[bytes]", valkey.call("ZRANGE", "cq:queues", 0, -1))


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("statuz", "'status'"),
        ("move", "'failed move' or 'item move'"),
        ("push", "Did you mean 'enqueue'?"),
        ("retry", "'failed requeue'"),
        ("zzz", ""),
    ],
)
def test_similar_commands_are_suggested_for_an_unknown_one(
    claimq: Claimq, monkeypatch: pytest.MonkeyPatch, word: str, meant: str
) -> None:
    monkeypatch.setattr(cli, "commands", {})  # as at the start: commands are loaded when they are used
    answer = claimq(word, "q")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"claimq: No such command '{word}'.")
    assert ("Did you mean" in answer.err, meant in answer.err) == (bool(meant), True)
