"""`claimq import` of JSON lines and CSV."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from testkit.plugin import Claimq
from testkit.servers.server import Server
from testkit.waiting import PATIENCE


def test_json_lines_describe_items(on: Claimq, queue: BlockingQueue, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"payload": "text", "id": "one", "client": "acme"},
        {"payload": {"to": "Ü"}},
        {"payload_base64": base64.b64encode(b"\xff\0").decode()},
        {"payload": "later", "at": 4_000_000_000},
        {"payload": "later", "at": "2096-10-02T07:06:40Z"},
    ]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    for said in ("5 items enqueued (a new queue)", "0 items enqueued, 5 items known already"):
        assert on("import", "q", "--from", "items.jsonl").out == f"q: {said}\n"
    assert [item.payload for item in queue.peek(9)] == [b"text", b'{"to": "\\u00dc"}', b"\xff\0"]
    assert (queue.peek(1)[0].id, queue.peek(1)[0].client) == ("one", "acme")
    due = {one.due_at for one in queue.items("delayed")}
    assert due == {4_000_000_000.0}


def test_a_csv_file_names_its_columns(on: Claimq, queue: BlockingQueue, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_bytes(
        b'id,payload,client\r\none,"a ""b""\r\n\r\nc",acme\r\ntwo,,\r\n\r\nthree,x,'
    )
    on("import", "q", "--from", "items.csv")
    assert [(item.id, item.payload, item.client) for item in queue.peek(9)] == [
        ("one", b'a "b"\r\n\r\nc', "acme"),
        ("two", b"", None),
        ("three", b"x", None),
    ]


def test_a_row_without_a_payload_is_a_json_object(on: Claimq, queue: BlockingQueue, tmp_path: Path) -> None:
    (tmp_path / "items.csv").write_text("\ufeffid,to,size\n1,ann,17\n2,bob,\n")
    on("import", "q", "--from", "items.csv")
    assert [(item.id, item.json()) for item in queue.peek(9)] == [
        ("1", {"to": "ann", "size": "17"}),
        ("2", {"to": "bob", "size": ""}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", '{"payload": "x"}\n7', "line 2: not a JSON object with a payload"),
        ("a.jsonl", '{"payload": "x"}\n{"payload": 7}', "line 2: a payload is bytes, text"),
        ("a.jsonl", '{"payload": "x"}\n{"id": "a"}', "line 2: it needs one of the fields payload"),
        ("a.jsonl", '{"payload": "x"}\n{"payload_base64": "%"}', "line 2: payload_base64 is not base64"),
        ("a.jsonl", '{"payload": "x"}\n{"payload": "y", "id": "a b"}', "line 2: the item id 'a b'"),
        ("a.jsonl", '{"payload": "x"}\n{"payload": "y", "at": "soon"}', "line 2: at is not an instant"),
        ("a.csv", "payload,id\nx,1\ny", "line 3: number of fields: 1, but the first line has 2"),
    ],
)
def test_a_wrong_line_is_named_and_the_others_are_imported(
    on: Claimq, queue: BlockingQueue, tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content + "\n")
    dry = on("import", "q", "--from", name, "--dry-run")
    assert dry.code == 1
    assert "q: 1 item would be enqueued" in dry.out
    assert said in dry.out
    answer = on("import", "q", "--from", name)
    line, _, reason = said.partition(": ")
    assert (answer.code, f"claimq: {line} is not enqueued: {reason}" in answer.err) == (1, True)
    assert "repeat the command with --id-prefix file-" in answer.err
    assert "q: 1 item enqueued, 1 line refused" in answer.out
    assert [item.payload for item in queue.peek(9)] == [b"x"]


def test_a_csv_file_that_ends_in_a_quoted_field_is_not_imported_in_silence(
    on: Claimq, queue: BlockingQueue, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text('payload,id\nx,1\n"y,2\nz,3\n')
    said = "line 3: a quoted field begins in this record and does not end"
    dry = on("import", "q", "--from", "a.csv", "--dry-run")
    assert (dry.code, said in dry.out) == (1, True)
    answer = on("import", "q", "--from", "a.csv")
    assert (answer.code, said.replace(":", " is not enqueued:") in answer.err) == (1, True)
    assert "q: 1 item enqueued, 1 line refused" in answer.out
    assert [item.id for item in queue.peek(9)] == ["1"]


def test_items_come_from_a_pipe(valkey: Server, queue: BlockingQueue) -> None:
    words = ["import", "q", "--redis", valkey.url, "--from", "-", "--format", "jsonl", "--id-prefix", "p-"]
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-m", "claimq_cli", *words],
            input=b'{"payload": "a"}\n\n{"payload": "b"}',
            timeout=PATIENCE,
            check=True,
        )
    assert [(item.id, item.text) for item in queue.peek(9)] == [("p-1", "a"), ("p-3", "b")]


def test_a_dry_run_of_a_file_makes_the_checks_of_the_load(
    on: Claimq, valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.set_policy(Policy(max_payload=10))
    queue.enqueue("known", id="known")
    lines = [
        '{"payload": "known", "id": "known"}',
        '{"payload": "one", "id": "a"}',
        '{"payload": "x", "id": "a"}',
    ]
    odd, large = '{"payload": "y", "at": -1}', '{"payload": "12345678901"}'
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, odd, large, ""]))
    dry = on("import", "q", "--from", "a.jsonl", "--dry-run")
    assert dry.code == 1
    assert "q: 1 item would be enqueued, 0 of them delayed, 2 items known already" in dry.out
    assert "line 5: the payload has 11 bytes and the queue takes at most 10" in dry.out
    assert "line 4: at is -1.0; give 0 to 1e+11, Unix seconds" in dry.out
    assert queue.length() == 1
    refused = on("import", "q", "--from", "a.jsonl")
    assert refused.code == 1
    assert "line 4 is not enqueued: at is -1.0; give 0 to 1e+11, Unix seconds" in refused.err
    assert "line 5 is not enqueued: the payload has 11 bytes and the queue takes at most 10" in refused.err
    assert "1 item enqueued, 2 items known already, 2 lines refused" in refused.out
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert "0 items enqueued, 3 items known already" in on("import", "q", "--from", "a.jsonl").out


@pytest.mark.parametrize("content", ["id;payload\n1;a\n", "id\tpayload\n1\ta\n", "\ufeffid,payload\n1,a\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_csv_file_of_a_spreadsheet_is_imported(
    on: Claimq, queue: BlockingQueue, tmp_path: Path, content: str, encoding: str
) -> None:
    (tmp_path / "a.csv").write_bytes(
        content.encode(encoding) if encoding == "utf-8" else content.lstrip("\ufeff").encode(encoding)
    )
    assert on("import", "q", "--from", "a.csv").code == 0
    assert [(item.id, item.payload) for item in queue.peek(9)] == [("1", b"a")]


@pytest.mark.parametrize("words", [["--client", "a b"], ["--id-prefix", "a b"], ["--id-prefix", "\u00fc"]])
@pytest.mark.parametrize("command", ["import", "enqueue"])
def test_a_wrong_option_is_refused_before_anything_is_read(
    claimq: Claimq, valkey: Server, queue: BlockingQueue, tmp_path: Path, words: list[str], command: str
) -> None:
    os.mkfifo(tmp_path / "pipe")  # which has no writer, so that a read would wait without end
    source = ["--lines", "pipe"] if command == "enqueue" else ["--from", "pipe", "--format", "jsonl"]
    answer = claimq(command, "q", "--redis", valkey.url, *source, *words)
    assert answer.code == 2
    assert "may only have printable ASCII characters without spaces" in answer.err
    assert not queue.exists()
