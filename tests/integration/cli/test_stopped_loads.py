"""Loads of lines that the queue or its server refuses in part, and where such a load continues."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import claimq.blocking as claimq_library
from claimq.blocking import BlockingQueue as Queue
from testkit.servers.patient import patient
from testkit.servers.server import Server


@pytest.fixture
def queue(valkey: Server) -> Iterator[Queue]:
    """`q` with an item."""
    with claimq_library.connect(settings=patient(valkey.url)) as server:
        queue = server.queue("q")
        queue.enqueue("first")
        yield queue


def test_a_load_that_a_full_server_stops_continues_after_the_last_stored_line(
    on: Callable[..., Any], queue: Queue, valkey: Server, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(b"%d" % number for number in range(1, 1001)))
    # The headers make several calls of the server of these lines.
    headers = ("--header", "g=" + "x" * 1000, "--header", "h=" + "x" * 1000)
    before = queue.length()
    limit = int(re.findall(rb"used_memory:(\d+)", valkey.call("INFO", "memory"))[0]) + 1_000_000  # type: ignore[arg-type]  # text
    valkey.call("CONFIG", "SET", "maxmemory", limit)
    stopped = on("enqueue", "q", "--lines", str(lines), *headers, "-o", "json")
    valkey.call("CONFIG", "SET", "maxmemory", 0)
    match = re.search(
        r"stopped after line (\d+), (\d+) enqueued; continue with --from-line (\d+)", stopped.err
    )
    assert match, stopped.err
    stored = queue.length() - before
    assert 0 < stored < 1000
    assert [int(number) for number in match.groups()] == [stored, stored, stored + 1]


def test_lines_whose_ids_are_too_long_stay_and_the_others_go_on(
    on: Callable[..., Any], queue: Queue, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1, 12)))
    loaded = on("enqueue", "q", "--lines", str(lines), "--id-prefix", "p" * 199, "-o", "json")
    assert loaded.code == 1, loaded.err
    assert (loaded.json["enqueued"], loaded.json["last_line"], queue.length()) == (9, 11, 10)
    assert [one["line"] for one in loaded.json["refused"]] == [10, 11]
    assert "the item id has 1 to 200 characters" in loaded.json["refused"][0]["reason"]


def test_a_load_that_a_full_queue_stops_fills_it_and_names_the_last_stored_line(
    on: Callable[..., Any], queue: Queue, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1, 2002)))
    queue.update_policy(max_waiting_items=1500)
    stopped = on("enqueue", "q", "--lines", str(lines), "--id-prefix", "p-")
    assert (stopped.code, queue.length()) == (6, 1500)
    assert "the queue q is full: 1500 of at most 1500 items wait" in stopped.err
    assert (
        "stopped after line 1499, 1,499 enqueued; continue with --from-line 1500 --id-prefix p-"
        in stopped.err
    )
    again = on("enqueue", "q", "--lines", str(lines), "--id-prefix", "p-", "--from-line", "1500")
    assert (again.code, queue.length()) == (6, 1500)
    assert "stopped after line 1499, 0 enqueued" in again.err
    queue.update_policy(max_waiting_items=None)
    assert on("enqueue", "q", "--lines", str(lines), "--id-prefix", "p-", "--from-line", "1500").code == 0
    assert queue.length() == 2002


def test_a_single_item_for_a_full_queue_has_an_exit_code_of_its_own(
    on: Callable[..., Any], queue: Queue
) -> None:
    queue.update_policy(max_waiting_items=1)
    refused = on("enqueue", "q", "second")
    assert (refused.code, queue.length()) == (6, 1)
    assert "1 of at most 1 items wait, and this call adds 1; enqueue again later" in refused.err


def test_a_load_that_a_bound_on_bytes_stops_fills_it_to_the_last_line_that_fits(
    on: Callable[..., Any], queue: Queue, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text(f"{'x' * 100}\n" * 2001)
    queue.update_policy(max_waiting_bytes=150_000)
    room, fitting = 150_000 - (queue.snapshot().waiting_bytes or 0), 0
    while (room := room - len(f"cq1 p-{fitting + 1} 1764300000000 - -\n") - 100) >= 0:
        fitting += 1
    assert 1000 < fitting < 1500
    command = ("enqueue", "q", "--lines", str(lines), "--id-prefix", "p-")
    stopped = on(*command)
    assert (stopped.code, queue.length()) == (6, 1 + fitting), stopped.err
    assert "of at most 150000 bytes wait" in stopped.err
    assert f"stopped after line {fitting}, {fitting:,} enqueued; continue with --from-line" in stopped.err
    queue.update_policy(max_waiting_bytes=None)
    assert on(*command, "--from-line", str(fitting + 1)).code == 0
    assert queue.length() == 2002
