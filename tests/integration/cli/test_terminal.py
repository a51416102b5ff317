"""What reaches a real terminal: no sequence from outside, and no number or id cut at any width."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

import claimq.blocking
from claimq.model import NewItem, Reason
from claimq.policy import Policy
from testkit.programs.terminal import Terminal
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue, open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

EVIL = "\x1b]52;c;ZXZpbA==\x07 \x1b]0;title\x07 \x1b[2J \x9b2J \u202egpj.exe\u2066 \x08\x7f\r\n"
SHOWN = r"\x1b]52;c;ZXZpbA==\x07"
OBEYED = re.compile(
    r"\x1b(?!\[\d*m)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""What a terminal takes for a command, without the bold and plain of our own headings."""


def on_terminal(url: str, *arguments: str, columns: int = 200) -> str:
    command = [sys.executable, "-m", "claimq_cli", *arguments, "--redis", url]
    with Terminal(command, columns=columns) as terminal:
        terminal.wait()
        return terminal.output.decode()


@pytest.fixture
def hostile(valkey: Server) -> str:
    """A queue `q` on this URL whose items are from an attacker: in each state, in each field that he can reach."""
    with open_blocking_queue(valkey.url, worker="w") as queue:
        queue.set_policy(retrying_at_once(requeue_limit=1, busy_expiry=3600))
        queue.enqueue_many([NewItem(EVIL, client="c")] * 3)
        queue.enqueue(EVIL, id="later", delay=3600)
        queue.fail(queue.claim(1), EVIL, permanent=True)
        queue.release_worker("w", Reason.CRASHED, EVIL)
        queue.fail(queue.claim(1), EVIL)
        queue.claim(1)
    # A header with such a client is none of ours: the whole of it is then a payload. Failed items keep their fields.
    flat = cast("list[bytes]", valkey.call("HGETALL", "cq:{q}:busy:w"))
    for field, value in zip(flat[::2], flat[1::2], strict=True):
        valkey.call("HSET", "cq:{q}:busy:w", field, value.replace(b" c ", b" c\x1b[2J\x07 ", 1))
    return valkey.url


LOOKS = [
    ["items", "q", "main"], ["items", "q", "busy"], ["items", "q", "delayed"], ["items", "q", "failed"],
    ["clients", "q"], ["item", "show", "q", "later"], ["status", "q"], ["workers", "q"],
    ["item", "show", "q", EVIL.strip()], ["failed", "requeue", "q", EVIL.strip()],
    ["export", "q", "--state", "main", "--state", "failed"], ["export", "q", "--format", "csv"],
    ["export", "q", "--format", "raw"], ["export", "q", "--to", EVIL.strip() + "/x"],
    ["import", "q", "--from", EVIL.strip()],
    ["status", EVIL.strip()], ["check", EVIL.strip()], ["check", "q", "--" + EVIL.strip()], ["--" + EVIL.strip()],
]  # fmt: skip


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: " ".join(look)[:20].encode("ascii", "ignore").hex())
def test_text_from_outside_reaches_a_terminal_escaped(hostile: str, look: list[str]) -> None:
    text = on_terminal(hostile, *look)
    assert OBEYED.search(text) is None
    if look[0] in ("items", "item", "failed"):
        assert SHOWN in text


def test_the_whole_story_of_an_item_is_escaped(hostile: str) -> None:
    with claimq.blocking.connect(hostile) as server:
        (failed,) = server.queue("q").failed_items(9)
    text = on_terminal(hostile, "item", "show", "q", failed.item.id)
    assert OBEYED.search(text) is None
    assert text.count(SHOWN) >= 3, "payload, last error, history"


@pytest.mark.parametrize(
    "look", [["items", "q", "main"], ["items", "q", "failed"], ["status", "q"]], ids=lambda look: look[-1]
)
def test_json_is_escaped_in_its_own_way_and_is_the_same_document(hostile: str, look: list[str]) -> None:
    text = on_terminal(hostile, *look, "-o", "json")
    assert OBEYED.search(text) is None
    document = json.loads(text)
    if look[-1] == "main":
        assert document["items"][0]["item"]["text"] == EVIL
    if look[-1] == "failed":
        assert document["items"][0]["item"]["last_error"] == EVIL


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_number_and_no_id_is_cut_on_a_terminal(valkey: Server, columns: int) -> None:
    name = "thumbnails-of-the-archive-of-2025"
    with open_blocking_queue(valkey.url, name, worker="a-worker-with-a-long-name-0123456789") as queue:
        queue.set_policy(Policy(busy_expiry=3600))
        done = queue.enqueue_many([NewItem("x" * 500, client="a-client-with-a-long-name")] * 3000)
        queue.claim(1)
    status = on_terminal(valkey.url, "status", name, columns=columns)
    assert "2,999" in status
    assert name in status
    peeked = on_terminal(valkey.url, "items", name, "main", columns=columns)
    busy = on_terminal(valkey.url, "items", name, "busy", columns=columns)
    assert all(one in peeked for one in done.ids[1:11])
    assert "a-client-with-a-long-name" in peeked
    assert done.ids[0] in busy
    assert "a-worker-with-a-long-name-0123456789" in busy
    command = [sys.executable, "-m", "claimq_cli", "top", name, "--redis", valkey.url]
    with Terminal(command, columns=columns) as terminal:
        terminal.read_until("2,999")
        terminal.read_until(name)
        terminal.read_until(done.ids[0])
        terminal.read_until("a-worker-with-a-long-name-0123456789")
        terminal.type(b"q")
        assert terminal.wait() == 0
    if columns == 200:
        assert max(map(len, peeked.splitlines())) <= 200


def test_the_table_of_status_fits_80_columns_with_problems_first(valkey: Server) -> None:
    with open_blocking_server(valkey.url) as server:
        for name in ("mail-20", "mail-3", "mail-1", "mail-10"):
            queue = server.queue(name, worker="w")
            queue.enqueue_many([NewItem("x")] * 1000)
            queue.claim(900)
            queue.add_to_index()
        queue.fail(queue.claim(1), "no address", permanent=True)
    heading, rule, *rows = on_terminal(valkey.url, "status", columns=80).splitlines()
    assert len(rule) <= 80 + len("\x1b[1m\x1b[0m")
    assert "oldest" in heading
    assert [row.split()[0] for row in rows[:4]] == ["mail-10", "mail-1", "mail-3", "mail-20"]


def test_a_text_that_is_cut_comes_with_the_way_to_read_its_end(valkey: Server) -> None:
    with open_blocking_queue(valkey.url, worker="w") as queue:
        queue.enqueue("x", id="x")
        queue.fail(queue.claim(1), "the customer has no address: complete the form", permanent=True)
    hint = "-o wide shows the texts that end in …"
    text = on_terminal(valkey.url, "items", "q", "failed", columns=80)
    assert max(map(len, text.splitlines())) <= 80 + len("\x1b[1m\x1b[0m")
    assert (hint in text, "complete the form" in text) == (True, False)
    text = on_terminal(valkey.url, "items", "q", "failed", "-o", "wide", columns=80)
    assert (hint in text, "complete the form" in text) == (False, True)


APP = "import sys, time; sys.stderr.write(%r); sys.stderr.flush(); sys.exit(3)" % (EVIL + "\n")


@pytest.mark.parametrize("arguments", [[], ["--plain"]], ids=["live", "plain"])
def test_what_workers_log_reaches_the_terminal_escaped(tmp_path: Path, arguments: list[str]) -> None:
    spec = {
        "worker": {"command": [sys.executable, "-c", APP]},
        "scaling": {"minReplicas": 1, "maxReplicas": 1},
    }
    manifest = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "q"},
        "spec": spec,
    }
    (tmp_path / "queue.yaml").write_text(json.dumps(manifest))
    command = [sys.executable, "-m", "claimq_cli", "up", "-f", str(tmp_path / "queue.yaml"), *arguments]
    with Terminal(command, columns=200, cwd=tmp_path) as terminal:
        terminal.read_until(SHOWN)
        terminal.type(b"\x03")
        assert terminal.wait() == 0
    text = terminal.output.decode()
    assert "\x1b]" not in text
    assert not {"\x9b", "\u202e", "\u2066", "\x07", "\x7f"} & set(text)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_letters_that_the_output_lacks_are_escaped_and_nothing_is_cut(valkey: Server, encoding: str) -> None:
    payload = "\u017c\u00fc \u20ac \U0001f600"
    with open_blocking_server(valkey.url) as server:
        server.queue("q").enqueue(payload, id="first", client="c")
        server.queue("q").enqueue("last", id="last", client="c")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}

    def printed(*arguments: str) -> str:
        command = [sys.executable, "-m", "claimq_cli", *arguments, "--redis", valkey.url]
        ended = subprocess.run(
            command, env=environment, capture_output=True, check=True, timeout=PATIENCE, cwd="/"
        )
        return ended.stdout.decode(encoding)

    table, document = printed("items", "q", "main"), json.loads(printed("items", "q", "main", "-o", "json"))
    assert re.search(r"^(-+|─+)  ", table, re.MULTILINE)
    assert table.rstrip().splitlines()[-1].endswith("last")
    texts = [entry["item"]["text"] for entry in document["items"]]
    assert texts == [payload, "last"]
