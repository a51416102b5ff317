"""Names of queues: which are there, which are known, and which may be meant."""

from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

import claimq as library
from testkit.server import Server

Claimq = Callable[..., Any]
QueueDo = Callable[[Callable[[library.ReliableQueue], Coroutine[Any, Any, Any]]], Any]

ON_A_QUEUE = [
    ["status"], ["peek"], ["items", "main"], ["busy"], ["clients"], ["find", "id"], ["workers"], ["pause"],
    ["resume"], ["flush", "--yes"], ["delete", "--yes"], ["release", "w"], ["failed", "list"],
    ["failed", "show", "id"], ["failed", "requeue", "--all"], ["failed", "remove", "--all", "--yes"], ["policy"],
]  # fmt: skip


@pytest.mark.parametrize("words", ON_A_QUEUE, ids=" ".join)
def test_a_misspelled_queue_is_refused_with_the_one_that_is_meant(
    on: Claimq, valkey: Server, words: list[str]
) -> None:
    on("enqueue", "thumbnails", "a")
    before = valkey.call("KEYS", "*")
    group = words[:2] if words[0] == "failed" else words[:1]
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


def test_a_queue_of_a_cluster_is_meant_by_its_bare_name(on: Claimq) -> None:
    on("enqueue", "team.checksums", "a")
    assert "did you mean team.checksums?" in on("peek", "checksums").err


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
