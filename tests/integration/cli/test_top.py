"""`claimq top` on a real terminal."""

from __future__ import annotations

import sys

import pytest

from claimq import NewItem
from testkit.plugin import Claimq
from testkit.programs.terminal import CTRL_C, Terminal
from testkit.servers.patient import open_blocking_server
from testkit.servers.server import Server


def top(server: Server, *arguments: str) -> Terminal:
    command = [
        sys.executable,
        "-m",
        "claimq_cli",
        "top",
        *arguments,
        "--redis",
        server.url,
        "--interval",
        "100ms",
    ]
    return Terminal(command, columns=120)


@pytest.fixture
def two_queues(on: Claimq, valkey: Server) -> None:
    """`photos` with an item in progress, and `mail` with 1,234 items that wait; both are in the index."""
    on("enqueue", "mail", "first")
    on("enqueue", "photos", "cat.png", "--id", "order-4711")
    with open_blocking_server(valkey.url) as server:
        server.queue("mail").enqueue_many([NewItem("x")] * 1233)
        server.queue("photos", worker="worker-1").claim()


def test_queues_are_listed_opened_and_closed(two_queues: None, valkey: Server) -> None:
    with top(valkey) as terminal:
        terminal.read_until("2 queues")
        terminal.read_until("1,234")
        terminal.read_until("1 (1 busy)")
        terminal.type(b"/phot\r")
        terminal.read_until("1 of 2 queues")
        terminal.type(b"\r")
        terminal.read_until("order-4711")
        terminal.read_until("worker-1")
        terminal.output = b""
        terminal.type(b"\x1b")
        terminal.read_until("filter: phot")
        terminal.type(b"q")
        assert terminal.wait() == 0


def test_one_queue_alone_follows_what_happens(two_queues: None, valkey: Server) -> None:
    with top(valkey, "photos") as terminal:
        terminal.read_until("order-4711")
        with open_blocking_server(valkey.url) as server:
            server.queue("photos").enqueue("dog.png", id="order-4712")
            server.queue("photos", worker="worker-2").claim()
        terminal.read_until("order-4712")
        terminal.type(CTRL_C)
        assert terminal.wait() == 130


def test_an_outage_is_shown_and_ends(two_queues: None, valkey: Server) -> None:
    with top(valkey) as terminal:
        terminal.read_until("1,234")
        valkey.stop()
        terminal.read_until("no answer from the server")
        valkey.start()
        terminal.output = b""
        terminal.read_until("0 queues")  # this server stores nothing
        terminal.type(b"q")
        assert terminal.wait() == 0


def test_without_a_terminal_it_names_the_command_for_pipes(on: Claimq, two_queues: None) -> None:
    answer = on("top")
    assert (answer.code, answer.err) == (1, "claimq: claimq top needs a terminal; use `claimq status`\n")


def test_a_queue_that_does_not_exist_is_an_error(two_queues: None, valkey: Server) -> None:
    with top(valkey, "photo") as terminal:
        terminal.read_until("there is no queue photo on this server; did you mean photos?")
        assert terminal.wait() == 1
