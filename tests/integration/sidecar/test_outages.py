"""Deaths of the sidecar and of the store."""

import json
import threading
from collections.abc import Callable

import pytest

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.server import DURABLE, Server
from testkit.sidecars import Answer, Sidecar
from testkit.waiting import PATIENCE, eventually_sync


def test_a_killed_sidecar_leaves_a_stale_socket_that_the_next_one_replaces(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    (claim,) = sidecar.claim()
    sidecar.kill9()
    assert sidecar.socket.exists()
    sidecar.start()
    assert sidecar.outcomes("done", claim["token"]) == ["done"]
    assert sidecar.socket.stat().st_mode & 0o777 == 0o660


def test_the_claims_of_a_killed_sidecar_come_back_with_their_leases(
    sidecar: Sidecar, queue: BlockingQueue, hasty: Policy
) -> None:
    queue.enqueue("a")
    session = sidecar.open_session()
    sidecar.claim(1, session=session.id)
    sidecar.kill9()

    def expired() -> bool:
        queue.reap()
        return queue.length(State.MAIN) == 1

    eventually_sync(expired)
    session.close()


def test_a_socket_that_is_served_is_not_taken(sidecar: Sidecar) -> None:
    other = Sidecar("redis://127.0.0.1:1", socket=str(sidecar.socket))
    with pytest.raises(RuntimeError, match=f"another process serves {sidecar.socket}"):
        other.start(wait=False)
    code = other.running.wait()
    other.close()
    assert code == 1
    assert sidecar.info["queue"] == "q"


def test_what_is_no_socket_is_not_removed(valkey: Server) -> None:
    sidecar = Sidecar(valkey.url)
    sidecar.socket.parent.mkdir()
    sidecar.socket.write_text("precious")
    with pytest.raises(RuntimeError, match="is there and is no socket; remove it or set CLAIMQ_SOCKET"):
        sidecar.start()
    assert sidecar.socket.read_text() == "precious"
    sidecar.close()


def test_the_socket_belongs_to_user_and_group(sidecar: Sidecar) -> None:
    assert sidecar.socket.stat().st_mode & 0o777 == 0o660
    assert sidecar.socket.parent.stat().st_mode & 0o777 == 0o770


def test_an_outage_of_the_store_is_reported_and_survived(
    start_server: ServerFactory, start_sidecar: Callable[..., Sidecar]
) -> None:
    store = start_server(options=DURABLE)
    sidecar = start_sidecar(store.url)
    with claimq.blocking.connect(store.url) as server:
        server.queue("q").enqueue_many(["a", "b"])
    (claim,) = sidecar.claim()
    store.kill9()
    refused = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "c"}]})
    assert (refused.status, refused.headers["retry-after"]) == (503, "1")
    assert refused.json["type"] == "urn:claimq:problem:store-unavailable"
    assert sidecar.health("/readyz").status == 200
    answers: list[Answer] = []
    verdict = {"tokens": [claim["token"]]}
    asking = threading.Thread(target=lambda: answers.append(sidecar.ask("POST", "/v1/done", verdict)))
    asking.start()
    store.start()
    asking.join(PATIENCE)
    assert [answer.json["outcomes"][0]["outcome"] for answer in answers] == ["done"]
    assert len(sidecar.claim(1, wait=5)) == 1
    assert sidecar.metric('claimq_sidecar_store_errors_total{kind="unavailable"}') >= 1


def test_a_session_closed_during_an_outage_gives_its_items_back_afterwards(
    start_server: ServerFactory, start_sidecar: Callable[..., Sidecar]
) -> None:
    store = start_server(options=DURABLE)
    sidecar = start_sidecar(store.url)
    with claimq.blocking.connect(store.url) as server:
        queue = server.queue("q")
        queue.enqueue("a")
        session = sidecar.open_session()
        sidecar.claim(1, session=session.id)
        store.kill9()
        session.close()
        eventually_sync(lambda: sidecar.info["sessions"] == 0)
        store.start()
        eventually_sync(lambda: queue.length(State.MAIN) == 1)
        assert queue.peek(1)[0].crash_count == 1


def test_a_sidecar_starts_before_its_store_and_becomes_ready_with_it(
    start_server: ServerFactory, start_sidecar: Callable[..., Sidecar]
) -> None:
    store = start_server()
    store.stop()
    sidecar = start_sidecar(store.url, wait=False)
    answer = sidecar.health("/readyz")
    assert answer.status == 503
    assert sidecar.health("/healthz").status == 200
    store.start()
    eventually_sync(lambda: sidecar.health("/readyz").status == 200)


def test_a_full_store_takes_verdicts_and_refuses_items(
    start_server: ServerFactory, start_sidecar: Callable[..., Sidecar]
) -> None:
    store = start_server(options={"maxmemory-policy": "noeviction"})
    sidecar = start_sidecar(store.url)
    sidecar.post("/v1/enqueue", items=[{"text": "a"}])
    (claim,) = sidecar.claim()
    store.call("CONFIG", "SET", "maxmemory", "1")
    answer = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "b"}]})
    assert (answer.status, answer.json["type"]) == (507, "urn:claimq:problem:store-full")
    assert sidecar.outcomes("done", claim["token"]) == ["done"]


def test_a_wrong_password_is_reported_without_the_password(
    start_server: ServerFactory, start_sidecar: Callable[..., Sidecar], tmp_path: object
) -> None:
    store = start_server()
    store.call("CONFIG", "SET", "requirepass", "right-secret")
    sidecar = start_sidecar(store.url, wait=False, redis_password="wrong-secret")
    answer = eventually_sync(
        lambda: a if "password" in (a := sidecar.health("/readyz")).json.get("why", "") else None
    )
    assert answer is not None
    assert answer.status == 503
    shown = sidecar.log_text + answer.body.decode() + json.dumps(sidecar.ask("POST", "/v1/claim", {}).json)
    assert "secret" not in shown


def test_a_worker_at_work_needs_no_new_connection_for_its_first_verdict(
    valkey: Server, start_proxy: ProxyFactory, queue: BlockingQueue
) -> None:
    proxy = start_proxy(valkey)
    with Sidecar(proxy.url) as sidecar:
        proxy.turn_away()
        queue.enqueue("a")
        (claim,) = sidecar.claim()
        assert sidecar.outcomes("renew", claim["token"]) == ["renewed"]
        assert sidecar.outcomes("done", claim["token"]) == ["done"]
