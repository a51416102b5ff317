"""`claimq --web-api` with the address of another program."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

Claimq = Callable[..., Any]


class Stranger(BaseHTTPRequestHandler):
    """A JSON API of another program."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "14")
        self.end_headers()
        self.wfile.write(b'{"queues": 17}')

    do_POST = do_GET  # noqa: N815 - as the base class looks for it

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        pass


class Busy(Stranger):
    """A page that checks too many tokens."""

    def do_GET(self) -> None:
        self.send_response(429)
        self.send_header("Content-Length", "24")
        self.end_headers()
        self.wfile.write(b'{"message": "try later"}')


class Strict(Stranger):
    """A page of another release, to which one payload is not valid."""

    def do_POST(self) -> None:
        items = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["items"]
        payloads = [base64.b64decode(one["payload_base64"]) for one in items]
        status, answer = 200, {"ids": [f"i{n}" for n, _ in enumerate(items)], "length": 1, "duplicates": []}
        if b"bad" in payloads:
            index = payloads.index(b"bad")
            status, answer = 400, {"message": f"items[{index}]: not valid here", "index": index}
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def served(handler: type[Stranger]) -> Generator[str]:
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def stranger() -> Iterator[str]:
    """The address of a server that is no page of claimq."""
    with served(Stranger) as url:
        yield url


def test_the_answers_of_another_program_are_no_results(claimq: Claimq, stranger: str) -> None:
    for words in (
        ("status",), ("peek", "q"), ("pause", "q"), ("release", "q", "w"), ("policy", "q"), ("enqueue", "q", "x"),
        ("failed", "export", "q"), ("failed", "requeue", "q", "--all"), ("item", "remove", "q", "a"),
    ):  # fmt: skip
        answer = claimq(*words, "--web-api", stranger)
        assert (answer.code, answer.out, "is this a web page of claimq" in answer.err) == (4, "", True), words
    checked = claimq("check", "q", "--web-api", stranger)
    assert (checked.code, checked.out.partition(" - ")[0]) == (3, "UNKNOWN")


def test_a_page_that_is_too_busy_to_check_a_token_is_unavailable(claimq: Claimq) -> None:
    with served(Busy) as url:
        answer = claimq("status", "--web-api", url)
    assert (answer.code, answer.out, "try later (status 429)" in answer.err) == (3, "", True)


def test_a_line_that_a_page_finds_invalid_is_named_and_the_others_go_on(
    claimq: Claimq, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\nbad\nb\nbad\nc\n")
    with served(Strict) as url:
        answer = claimq("enqueue", "q", "--lines", str(lines), "--web-api", url, "-o", "json")
    assert answer.code == 1, answer.err
    assert (answer.json["enqueued"], answer.json["last_line"]) == (3, 5)
    assert answer.json["refused"] == [
        {"line": 2, "reason": "the web page: items[1]: not valid here"},
        {"line": 4, "reason": "the web page: items[2]: not valid here"},
    ]
