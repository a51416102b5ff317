"""`claimq --web-api` with the address of another program."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
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
