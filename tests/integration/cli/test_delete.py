"""`claimq delete`: removes a queue with its policy and items, after a confirmation."""

import sys
from typing import cast

import pytest

from testkit.plugin import Claimq
from testkit.programs.terminal import Terminal
from testkit.servers.server import Server

ASKED = "this removes the policy, the counters and every item of q permanently"


@pytest.fixture
def two_items(on: Claimq) -> None:
    """A queue `q` with an item in main and one in delayed."""
    on("enqueue", "q", "a")
    on("enqueue", "q", "b", "--delay", "1h")


def test_a_deleted_queue_is_gone_with_its_policy_and_its_items(
    on: Claimq, two_items: None, valkey: Server
) -> None:
    on("policy", "q", "requeue_limit=3")
    answer = on("delete", "q", "--yes", "-o", "json")
    assert answer.json == {"queue": "q", "removed": {"main": 1, "busy": 0, "delayed": 1, "failed": 0}}
    keys = cast("list[bytes]", valkey.call("KEYS", "cq:{q}:*"))
    assert [key for key in keys if b":calls:" not in key] == []
    assert on("status", "q").code == 1
    assert on("queues").out == "this server has no list of queues\n"


def test_with_if_empty_a_queue_with_items_stays(on: Claimq, two_items: None) -> None:
    answer = on("delete", "q", "--if-empty", "--yes")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "claimq: q is not empty (1 in main, 1 in delayed), so it was not deleted; wait until it is empty, or omit "
        "--if-empty to remove its items too\n"
    )
    assert on("status", "q", "-o", "json").json["lengths"]["main"] == 1
    on("flush", "q", "--yes")
    assert on("delete", "q", "--if-empty", "--yes").out == "q: deleted, 0 items removed\n"
    assert on("status", "q").code == 1


def test_delete_needs_a_confirmation(on: Claimq, two_items: None) -> None:
    answer = on("delete", "q")
    assert (answer.code, answer.err) == (2, f"claimq: {ASKED}; confirm it with --yes\n")
    if_empty = on("delete", "q", "--if-empty")
    assert if_empty.err == (
        "claimq: this removes the policy and the counters of q permanently; confirm it with --yes\n"
    )
    assert on("status", "q").code == 0


@pytest.mark.parametrize(("typed", "code", "left"), [(b"n\n", 130, 0), (b"y\n", 0, 1)], ids=["no", "yes"])
def test_delete_asks_on_a_terminal(
    on: Claimq, two_items: None, valkey: Server, typed: bytes, code: int, left: int
) -> None:
    command = [sys.executable, "-m", "claimq_cli", "delete", "q", "--redis", valkey.url]
    with Terminal(command, columns=200) as terminal:
        terminal.read_until(f"{ASKED}; continue? [y/N]:")
        terminal.type(typed)
        assert terminal.wait() == code
    assert on("status", "q").code == left
