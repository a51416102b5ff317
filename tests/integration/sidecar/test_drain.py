"""Drains: nothing new is claimed, what is in progress is finished or goes back uncounted and in order."""

import contextlib
import json
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import KEY, Answer, Sidecar, StartSidecar, UnixConnection


def test_sigterm_without_work_ends_at_once(sidecar: Sidecar) -> None:
    assert sidecar.running.terminate() == 0
    assert not sidecar.socket.exists()


def test_sigterm_waits_for_what_is_in_flight(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    (claim,) = sidecar.claim()
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: sidecar.info["draining"])
    assert sidecar.post("/v1/claim") == {"claims": [], "draining": True}
    assert sidecar.running.is_running
    assert sidecar.outcomes("done", claim["token"]) == ["done"]
    assert sidecar.running.wait() == 0
    assert [item.payload for item in queue.peek(2)] == [b"b"]


def test_what_is_left_after_the_drain_time_goes_back_uncounted_and_in_order(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, drain_timeout="200ms")
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    sidecar.claim(2, session=session.id)
    sidecar.claim(1)
    sidecar.running.send(signal.SIGTERM)
    assert sidecar.running.wait() == 0
    items = queue.peek(4)
    assert [item.payload for item in items] == [b"a", b"b", b"c", b"d"]
    assert [(item.crash_count, item.requeue_count) for item in items] == [(0, 0)] * 4
    assert [item.interrupted_count for item in items] == [1, 1, 1, 0]


def test_a_second_signal_hurries(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    sidecar.claim()
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: sidecar.info["draining"])
    sidecar.running.send(signal.SIGTERM)
    assert sidecar.running.wait() == 0
    assert queue.peek(1)[0].interrupted_count == 1


def test_drain_answers_when_the_hands_are_empty(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    (claim,) = sidecar.claim()
    answers: list[Answer] = []
    asking = threading.Thread(target=lambda: answers.append(sidecar.drain()))
    asking.start()
    eventually_sync(lambda: sidecar.info["draining"])
    assert answers == []
    sidecar.outcomes("done", claim["token"])
    asking.join(PATIENCE)
    assert [answer.json for answer in answers] == [{"drained": True, "in_flight": 0}]
    assert sidecar.running.is_running
    assert sidecar.running.terminate() == 0


def test_drain_answers_when_the_time_is_over_and_leaves_the_work_to_the_app(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, drain_timeout="200ms")
    queue.enqueue("a")
    session = sidecar.open_session()
    (claim,) = sidecar.claim(1, session=session.id)
    assert sidecar.drain().json == {"drained": False, "in_flight": 1}
    assert sidecar.outcomes("done", claim["token"]) == ["done"]


def test_a_session_that_closes_in_a_drain_is_an_interruption(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])
    session = sidecar.open_session()
    sidecar.claim(2, session=session.id)
    sidecar.running.send(signal.SIGTERM)
    assert session.line() == {"draining": True}
    session.close()
    assert sidecar.running.wait() == 0
    items = queue.peek(3)
    assert [(item.payload, item.crash_count) for item in items] == [(b"a", 0), (b"b", 0), (b"c", 0)]


def test_a_claim_that_waits_ends_when_a_drain_begins(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Callable[[], int]
) -> None:
    connection = UnixConnection(sidecar.socket)
    connection.request("POST", "/v1/claim", json.dumps({"wait": 60}))
    eventually_sync(lambda: waiting_claims() == 1)
    sidecar.running.send(signal.SIGTERM)
    assert json.loads(connection.getresponse().read()) == {"claims": [], "draining": True}
    connection.close()
    assert sidecar.running.wait() == 0
    queue.enqueue("a")
    assert queue.length(State.MAIN) == 1


def test_a_claim_that_waits_in_a_session_ends_with_an_empty_answer_at_sigterm(
    sidecar: Sidecar, waiting_claims: Callable[[], int]
) -> None:
    session = sidecar.open_session()
    with contextlib.closing(UnixConnection(sidecar.socket)) as connection:
        connection.request("POST", "/v1/claim", json.dumps({"wait": 60, "session": session.id}))
        eventually_sync(lambda: waiting_claims() == 1)
        sidecar.running.send(signal.SIGTERM)
        reply = connection.getresponse()
        assert (reply.status, json.loads(reply.read())) == (200, {"claims": [], "draining": True})
    assert sidecar.running.wait() == 0


def test_a_claim_in_a_drain_is_empty_also_in_a_session_that_has_ended(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    sidecar.claim()
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: sidecar.info["draining"])
    assert sidecar.post("/v1/claim", session="ended") == {"claims": [], "draining": True}


def test_a_drain_ends_for_plain_claims_with_their_leases(
    sidecar: Sidecar, queue: BlockingQueue, hasty: object
) -> None:
    queue.enqueue("a")
    sidecar.claim()
    sidecar.running.send(signal.SIGTERM)
    assert sidecar.running.wait() == 0


@pytest.fixture
def waiting(sidecar: Sidecar, waiting_claims: Callable[[], int]) -> Iterator[UnixConnection]:
    """A claim that waits on the server."""
    with contextlib.closing(UnixConnection(sidecar.socket)) as connection:
        connection.request("POST", "/v1/claim", json.dumps({"wait": 60}))
        eventually_sync(lambda: waiting_claims() == 1)
        yield connection


def is_a_drain_that_ends(sidecar: Sidecar, queue: BlockingQueue, waiting: UnixConnection) -> bool:
    """Whether a claim that waited was answered by a drain, and there are claims again later."""
    was_draining = json.loads(waiting.getresponse().read()) == {"claims": [], "draining": True}
    eventually_sync(lambda: not sidecar.info["draining"])
    queue.enqueue("a")
    return was_draining and len(sidecar.claim()) == 1


def test_the_hook_of_an_app_that_is_just_restarted_is_no_end(
    sidecar: Sidecar, queue: BlockingQueue, waiting: UnixConnection
) -> None:
    assert sidecar.drain("/worker/prestop").json == {"in_flight": 0}
    assert is_a_drain_that_ends(sidecar, queue, waiting)


KEY_SHOWN = {"claimq-lifecycle-key": KEY}


@pytest.mark.parametrize("path", ["/drain", "/worker/prestop"])
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("headers", [{}, {"claimq-lifecycle-key": "guessed"}, {"claimq-lifecycle-key": ""}])
def test_a_request_without_the_key_begins_no_drain_from_loopback_either(
    sidecar: Sidecar, path: str, method: str, headers: dict[str, str]
) -> None:
    refused = sidecar.health(path, method=method, headers=headers)
    assert refused.status == 403
    assert refused.json["type"] == "urn:claimq:problem:key-needed"
    assert "Claimq-Lifecycle-Key" in refused.json["detail"]
    assert KEY not in refused.body.decode()
    assert not sidecar.info["draining"]
    for probe in ("/healthz", "/readyz", "/metrics", "/worker/livez"):
        assert sidecar.health(probe).status == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_request_with_the_key_drains_also_as_the_get_of_a_kubelet(sidecar: Sidecar, method: str) -> None:
    drained = sidecar.health("/drain", method=method, headers=KEY_SHOWN)
    assert drained.json == {"drained": True, "in_flight": 0}
    assert sidecar.info["draining"]


def test_a_drain_request_that_prefers_no_wait_is_answered_before_the_claims_end(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("held")
    (held,) = sidecar.claim()
    begun = sidecar.health("/drain", method="POST", headers={**KEY_SHOWN, "prefer": "respond-async"})
    assert (begun.status, begun.json) == (202, {"in_flight": 1})
    assert sidecar.info["draining"]
    assert sidecar.outcomes("done", held["token"]) == ["done"]
    assert sidecar.drain().json == {"drained": True, "in_flight": 0}


def test_without_a_key_set_no_request_begins_a_drain(valkey: Server, start_sidecar: StartSidecar) -> None:
    sidecar = start_sidecar(valkey.url, lifecycle_key="")
    assert sidecar.health("/drain", method="POST", headers={"claimq-lifecycle-key": ""}).status == 403
    assert not sidecar.info["draining"]


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:9464", "127.0.0.1.attacker.example", "a b"]
)
def test_a_foreign_host_is_refused_also_with_the_key(sidecar: Sidecar, host: str) -> None:
    for path in ("/drain", "/metrics"):
        refused = sidecar.health(path, method="GET", headers={**KEY_SHOWN, "host": host})
        assert (refused.status, refused.json["type"]) == (403, "urn:claimq:problem:foreign-host")
    assert not sidecar.info["draining"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "10.1.2.3:9464", "[::1]:9464"])
def test_an_address_and_localhost_are_not_foreign(sidecar: Sidecar, host: str) -> None:
    assert sidecar.health("/healthz", headers={"host": host}).status == 200


def test_a_web_page_is_refused_also_with_the_key(sidecar: Sidecar) -> None:
    for origin in ("http://attacker.example", "null", "http://127.0.0.1:8000"):
        refused = sidecar.health("/drain", method="POST", headers={**KEY_SHOWN, "origin": origin})
        assert (refused.status, refused.json["type"]) == (403, "urn:claimq:problem:from-a-web-page")
    assert not sidecar.info["draining"]


def test_the_apps_own_hook_asks_on_the_socket(
    sidecar: Sidecar, queue: BlockingQueue, waiting: UnixConnection
) -> None:
    assert sidecar.ask("POST", "/v1/prestop").json == {"in_flight": 0}
    assert is_a_drain_that_ends(sidecar, queue, waiting)
