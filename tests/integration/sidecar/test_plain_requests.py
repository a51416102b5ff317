"""Requests in the form of claimq.worker are answered as those in any other form, also beside them on one connection."""

import http.client
import json
import signal
from contextlib import closing
from typing import Any, BinaryIO

import pytest

from claimq.blocking import BlockingQueue
from claimq.worker.wire import request
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar


def in_another_form(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)


def body(**words: object) -> bytes:
    return json.dumps(words).encode()


def reply(replies: BinaryIO) -> tuple[int, dict[str, str], bytes]:
    """The next response. One reader has to read all of a connection: it may hold a part of the next one already."""
    status = int(replies.readline().split()[1])
    headers = http.client.parse_headers(replies)
    return status, dict(headers.items()), replies.read(int(headers["content-length"]))


def texts(answer: tuple[int, dict[str, str], bytes]) -> list[str]:
    parsed: Any = json.loads(answer[2])
    return [claim["text"] for claim in parsed["claims"]]


CLAIM = body(max=1, wait=0, encoding="text")


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/v1/claim", CLAIM),
        ("/v1/claim", b"{"),
        ("/v1/claim", body(max=0)),
        ("/v1/claim", body(wait=0, session="none")),
        ("/v1/next", body(wait=0, done=[{"token": "w/1.abcdefgh"}])),
        ("/v1/done", body(tokens=["w/1.abcdefgh"])),
        ("/v1/done", body(tokens=["TOKEN"])),
        ("/v1/nothing", b"{}"),
        ("/v1/info", b"{}"),
    ],
)
def test_the_response_does_not_depend_on_the_form(sidecar: Sidecar, path: str, sent: bytes) -> None:
    with closing(sidecar.connect()) as connection, connection.makefile("rb") as replies:
        answers = []
        for raw in (request(path, sent), in_another_form(path, sent), request(path, sent)):
            connection.sendall(raw)
            answers.append(reply(replies))
    assert answers[0] == answers[1] == answers[2]


def test_requests_at_once_are_answered_in_order(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    with closing(sidecar.connect()) as connection, connection.makefile("rb") as replies:
        plain = request("/v1/claim", CLAIM)
        connection.sendall(plain + plain + in_another_form("/v1/claim", CLAIM))
        connection.sendall(plain)
        assert [texts(reply(replies)) for _ in range(4)] == [["a"], ["b"], ["c"], ["d"]]


@pytest.mark.parametrize("form", [request, in_another_form])
def test_a_request_behind_one_that_waits_is_answered_after_it(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Any, form: Any
) -> None:
    with closing(sidecar.connect()) as connection, connection.makefile("rb") as replies:
        connection.sendall(request("/v1/claim", body(wait=60, encoding="text")))
        connection.sendall(form("/v1/claim", CLAIM))
        eventually_sync(lambda: waiting_claims() == 1)
        queue.enqueue_many(["a", "b"])
        assert [texts(reply(replies)) for _ in range(2)] == [["a"], ["b"]]


def test_a_request_in_pieces_is_one_request(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    raw = request("/v1/claim", CLAIM)
    with closing(sidecar.connect()) as connection, connection.makefile("rb") as replies:
        for piece in (raw[:3], raw[3:60], raw[60:-1], raw[-1:]):
            connection.sendall(piece)
        assert texts(reply(replies)) == ["a"]
        connection.sendall(request("/v1/info", b"{}"))
        assert reply(replies)[0] == 405


def test_an_item_in_a_response_that_is_not_read_goes_back(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    with closing(sidecar.connect()) as connection:
        connection.sendall(request("/v1/claim", CLAIM))
        eventually_sync(lambda: sidecar.info["in_flight"] == 1)
    (item,) = eventually_sync(lambda: queue.peek(2), why="the item goes back to main")
    eventually_sync(lambda: sidecar.info["in_flight"] == 0)
    assert (item.crash_count, item.requeue_count) == (0, 0)


def test_a_claim_whose_client_leaves_while_it_waits_ends(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Any
) -> None:
    with closing(sidecar.connect()) as connection:
        connection.sendall(request("/v1/claim", body(wait=60)))
        eventually_sync(lambda: waiting_claims() == 1)
    eventually_sync(lambda: waiting_claims() == 0)


def test_a_drain_ends_a_claim_that_waits_and_its_connection(sidecar: Sidecar, waiting_claims: Any) -> None:
    with closing(sidecar.connect()) as connection, connection.makefile("rb") as replies:
        connection.sendall(request("/v1/claim", body(wait=60)))
        eventually_sync(lambda: waiting_claims() == 1)
        sidecar.running.send(signal.SIGTERM)
        status, _, sent = reply(replies)
        assert (status, json.loads(sent)) == (200, {"claims": [], "draining": True})
        assert replies.read(1) == b""
