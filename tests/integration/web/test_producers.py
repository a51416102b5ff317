"""The endpoint for producers: what it answers, and to whom."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from claimq.blocking import BlockingQueue
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE
from testkit.web.producer_endpoint import ProducerEndpoint

PATH = "api/v1/queues/media.thumbs"
NEW = b'{"items": [{"id": "cat", "payload": "cat.png"}]}'


@pytest.fixture
def thumbs(valkey: Server) -> Iterator[BlockingQueue]:
    """The queue `media.thumbs`, which exists."""
    with open_blocking_queue(valkey.url, "media.thumbs", worker="watcher") as queue:
        queue.enqueue("first", id="first")
        yield queue


@pytest.fixture
def endpoint(valkey: Server, thumbs: BlockingQueue) -> Iterator[ProducerEndpoint]:
    assert thumbs
    with ProducerEndpoint(valkey.url) as served:
        yield served


def ask(
    endpoint: ProducerEndpoint, path: str, body: bytes | None = None, *, token: str = "", kind: str = "json"
) -> tuple[int, str]:
    """The answer to a request, a POST if it has a body."""
    types = {"json": "application/json", "form": "application/x-www-form-urlencoded"}
    headers = {"content-type": types[kind], **({"authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(endpoint.url + path, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_producer_adds_each_item_once(endpoint: ProducerEndpoint, thumbs: BlockingQueue) -> None:
    for duplicates, message in (
        ([], "1 item enqueued"),
        (["cat"], "0 items enqueued, 1 item known already"),
    ):
        status, text = ask(endpoint, f"{PATH}/enqueue", NEW, token="ann")
        answer = json.loads(text)
        assert (status, answer["ids"], answer["duplicates"]) == (200, ["cat"], duplicates)
        assert answer["message"] == message
    assert [item.payload for item in thumbs.peek(9)] == [b"first", b"cat.png"]
    assert [entry.actor for entry in thumbs.audit_log(9)] == ["ann", "ann"]


def test_adding_needs_a_token_and_the_right_on_this_queue(
    endpoint: ProducerEndpoint, thumbs: BlockingQueue
) -> None:
    for token, path, status in (
        ("", PATH, 401),
        ("mallory", PATH, 401),
        ("eve", PATH, 403),
        ("ann", "api/v1/queues/media.films", 404),
    ):
        assert ask(endpoint, f"{path}/enqueue", NEW, token=token)[0] == status
    assert [item.id for item in thumbs.peek(9)] == ["first"]


def test_the_endpoint_for_producers_has_no_page_and_no_other_request(endpoint: ProducerEndpoint) -> None:
    assert ask(endpoint, "healthz") == (200, "ok\n")
    for path in ("", "login", "metrics", "queues/media.thumbs", "static/style.css"):
        status, text = ask(endpoint, path, token="ann")
        assert (status, "POST /api/v1/queues/NAME/enqueue" in text) == (404, True), path
    reads = ("api/v1/queues", *(f"{PATH}/{read}" for read in ("status", "items", "item?id=first", "audit")))
    assert {ask(endpoint, path, token="ann")[0] for path in reads} == {404}
    assert ask(endpoint, f"{PATH}/enqueue", token="ann")[0] == 405
    changes = {PATH: b"action=pause", f"{PATH}/item": b"id=first&action=remove", "login": b"token=ann"}
    for path, body in changes.items():
        assert ask(endpoint, path, body, token="ann", kind="form")[0] in (404, 405), path


def test_an_invalid_request_says_what_is_wrong(endpoint: ProducerEndpoint) -> None:
    for body, status, says in (
        (b'{"items": []}', 400, "a request has 1 to 1,000 items"),
        (b'{"items": [{"payload": "a", "idd": "b"}]}', 400, "there is no field 'idd'"),
    ):
        answered, text = ask(endpoint, f"{PATH}/enqueue", body, token="ann")
        assert (answered, says in text) == (status, True), text
