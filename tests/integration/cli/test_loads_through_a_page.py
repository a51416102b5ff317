"""Loads of lines through a web page, and beside it: what is refused, and where a load goes on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import claimq.blocking as claimq_library
from claimq.blocking import BlockingQueue as Queue
from testkit.server import Server

Claimq = Callable[..., Any]


@pytest.fixture
def queue(valkey: Server) -> Iterator[Queue]:
    """`q`, which the page shows."""
    with claimq_library.connect(valkey.url) as server:
        queue = server.queue("q")
        queue.enqueue("first")
        queue.add_to_index()
        yield queue


def test_lines_that_are_too_large_for_the_queue_or_the_page_stay(
    through: Any, queue: Queue, tmp_path: Path
) -> None:
    queue.set_policy(replace(queue.policy(), max_payload=2_000_000))
    lines = tmp_path / "lines"
    lines.write_bytes(
        b"\n".join([b"a", b"x" * 2_100_000, b"y" * 1_900_000, b"z" * 3_500_000, b"b" * 900_000, b"c"])
    )
    loaded = through("enqueue", "q", "--lines", str(lines), "--id-prefix", "l", "-o", "json")
    assert loaded.code == 1, loaded.err
    assert loaded.json["ids"] == ["l1", "l3", "l5", "l6"]
    assert loaded.json["refused"] == [
        {"line": 2, "reason": "the payload has 2100000 bytes and the queue takes at most 2000000"},
        {
            "line": 4,
            "reason": "the web page takes items of about 3 MB at most; enqueue larger ones where the server can be "
            "reached",
        },
    ]
    assert queue.find("l2") is queue.find("l4") is None


@pytest.mark.parametrize("way", ["page", "server"])
def test_a_load_that_a_full_server_stops_continues_after_the_last_stored_line(
    through: Any, claimq: Claimq, queue: Queue, valkey: Server, tmp_path: Path, way: str
) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"\n".join(b"%d" % number for number in range(1, 1001)))
    # The headers make several calls of the server of these lines.
    target = (
        "enqueue",
        "q",
        "--lines",
        str(lines),
        "--header",
        "g=" + "x" * 1000,
        "--header",
        "h=" + "x" * 1000,
        "-o",
        "json",
    )
    run = through if way == "page" else partial(claimq, "--redis", valkey.url)
    before = queue.length()
    limit = int(re.findall(rb"used_memory:(\d+)", valkey.call("INFO", "memory"))[0]) + 1_000_000  # type: ignore[arg-type]  # text
    valkey.call("CONFIG", "SET", "maxmemory", limit)
    stopped = run(*target)
    valkey.call("CONFIG", "SET", "maxmemory", 0)
    match = re.search(
        r"stopped after line (\d+), (\d+) enqueued; continue with --from-line (\d+)", stopped.err
    )
    assert match, stopped.err
    stored = queue.length() - before
    assert 0 < stored < 1000
    assert [int(number) for number in match.groups()] == [stored, stored, stored + 1]


@pytest.mark.parametrize("way", ["page", "server"])
def test_lines_whose_ids_are_too_long_stay_and_the_others_go_on(
    through: Any, claimq: Claimq, queue: Queue, valkey: Server, tmp_path: Path, way: str
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1, 12)))
    run = through if way == "page" else partial(claimq, "--redis", valkey.url)
    loaded = run("enqueue", "q", "--lines", str(lines), "--id-prefix", "p" * 199, "-o", "json")
    assert loaded.code == 1, loaded.err
    assert (loaded.json["enqueued"], loaded.json["last_line"], queue.length()) == (9, 11, 10)
    assert [one["line"] for one in loaded.json["refused"]] == [10, 11]
    assert "the item id has 1 to 200 characters" in loaded.json["refused"][0]["reason"]
