"""Deaths of the sidecar and of the store."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import pytest

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.redis_store.scripts import script
from testkit.faults.links import Request
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.queues.looking import texts
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Answer, Sidecar, StartSidecar, UnixConnection


def reaped(queue: BlockingQueue) -> int:
    """The items in main, after those whose leases have ended have come back."""
    queue.reap()
    return queue.length(State.MAIN)


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
    eventually_sync(lambda: reaped(queue) == 1)
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
    start_server: ServerFactory, start_sidecar: StartSidecar
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
    assert len(sidecar.claim(1, wait=60)) == 1
    assert sidecar.metric('claimq_sidecar_store_errors_total{kind="unavailable"}') >= 1


def test_a_session_closed_during_an_outage_gives_its_items_back_afterwards(
    start_server: ServerFactory, start_sidecar: StartSidecar
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
    start_server: ServerFactory, start_sidecar: StartSidecar
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
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    store = start_server(options={"maxmemory-policy": "noeviction"})
    sidecar = start_sidecar(store.url)
    sidecar.post("/v1/enqueue", items=[{"text": "a"}])
    (claim,) = sidecar.claim()
    store.call("CONFIG", "SET", "maxmemory", "1")
    answer = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "b"}]})
    assert (answer.status, answer.json["type"]) == (507, "urn:claimq:problem:store-full")
    assert sidecar.outcomes("done", claim["token"]) == ["done"]


def test_an_item_that_could_never_start_is_refused(
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    store = start_server()
    sidecar = start_sidecar(store.url)
    with claimq.blocking.connect(store.url) as server:
        limit = claimq.Limit("tokens", rate="1/s", burst=9, unit="cost")
        server.queue("q").update_policy(limits=[limit])
    answer = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "a"}, {"text": "b", "cost": 10}]})
    assert (answer.status, answer.json["type"]) == (422, "urn:claimq:problem:item-too-costly")
    assert answer.json["errors"][0]["pointer"] == "/items/1/cost"
    sidecar.post("/v1/enqueue", items=[{"text": "c", "cost": 9}, {"text": "d", "cost": 1}])
    assert [claim.get("cost") for claim in sidecar.claim()] == [9]


def test_a_full_queue_refuses_items_with_the_numbers_and_takes_follow_up_items(
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    store = start_server()
    sidecar = start_sidecar(store.url)
    sidecar.post("/v1/enqueue", items=[{"text": "a"}])
    (claim,) = sidecar.claim()
    with claimq.blocking.connect(store.url) as server:
        server.queue("q").update_policy(max_waiting_per_client_items=1)
    sidecar.post("/v1/enqueue", items=[{"text": "b", "client": "ann"}])
    answer = sidecar.ask("POST", "/v1/enqueue", {"items": [{"text": "c", "client": "ann"}]})
    assert (answer.status, answer.json["type"]) == (429, "urn:claimq:problem:queue-full")
    assert answer.headers["retry-after"] == "1"
    numbers = {"waiting": 1, "limit": 1, "adding": 1, "stored_count": 0}
    assert answer.json["full"] == {"queue": "q", "client": "ann", "unit": "items", **numbers}
    follow = [{"text": "next", "client": "ann"}]
    done = sidecar.post("/v1/verdicts", done=[{"token": claim["token"], "enqueue": follow}])
    assert [one["outcome"] for one in done["outcomes"]] == ["done"]


def test_a_wrong_password_is_reported_without_the_password(
    start_server: ServerFactory, start_sidecar: StartSidecar, tmp_path: object
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


LONG = Policy(busy_expiry=3600.0)
"""No lease ends in a test: what comes back, the sidecar has returned."""


@contextmanager
def asked(sidecar: Sidecar, path: str, **body: object) -> Generator[UnixConnection]:
    """A connection with a request whose response is still to be read."""
    with closing(UnixConnection(sidecar.socket)) as connection:
        connection.request("POST", path, json.dumps(body))
        yield connection


def claims_in(connection: UnixConnection) -> list[Any]:
    """The claims of the response; none if it is a 503."""
    reply = connection.getresponse()
    document = json.loads(reply.read())
    assert reply.status in {200, 503}, document
    return list(document.get("claims", []))


def verdict_on(sidecar: Sidecar, token: str) -> str:
    """The outcome of `done`, which is repeated until there is one, as an app does."""
    outcome: str = eventually_sync(lambda: sidecar.outcomes("done", token)[0])
    return outcome


def work_on(sidecar: Sidecar, claims: list[Any], count: int) -> list[str]:
    """Claims until there are so many, and ends them; returns their texts. Nothing has counted against any of them."""

    def are_there() -> bool:
        claims.extend(sidecar.claim(5, encoding="text"))
        return len(claims) >= count

    eventually_sync(are_there)
    assert [verdict_on(sidecar, claim["token"]) for claim in claims] == ["done"] * count
    assert {(claim["fail_count"], claim["requeue_count"], claim["crash_count"]) for claim in claims} == {
        (0, 0, 0)
    }
    return sorted(claim["text"] for claim in claims)


def test_silent_connections_are_replaced_and_each_item_is_worked_on_once(
    proxy: FaultProxy,
    queue: BlockingQueue,
    start_sidecar: StartSidecar,
    waiting_claims: Callable[[], int],
) -> None:
    queue.set_policy(LONG)
    sidecar = start_sidecar(proxy.url)
    queue.enqueue_many(["1", "2"])
    one, two = (claim["token"] for claim in sidecar.claim(2))
    with (
        asked(sidecar, "/v1/claim", max=1, wait=60, encoding="text") as claiming,
        closing(UnixConnection(sidecar.socket)) as ending,
        closing(UnixConnection(sidecar.socket)) as stepping,
    ):
        eventually_sync(lambda: waiting_claims() == 1)
        proxy.black_hole()
        queue.enqueue_many(["3", "4"])
        ending.request("POST", "/v1/done", json.dumps({"tokens": [one]}))
        step = {"done": [{"token": two}], "wait": 0, "encoding": "text"}
        stepping.request("POST", "/v1/next", json.dumps(step))
        eventually_sync(lambda: sidecar.metric("claimq_sidecar_store_reconnects_total") >= 1)
        assert queue.stats()["done"] == 0
        proxy.heal()
        assert ending.getresponse().status in {200, 503}
        claims = claims_in(claiming) + claims_in(stepping)
    assert {verdict_on(sidecar, token) for token in (one, two)} <= {"done", "already_done"}
    queue.enqueue("5")
    assert work_on(sidecar, claims, 3) == ["3", "4", "5"]
    assert (queue.stats()["done"], any(queue.lengths().values())) == (5, False)


def is_claim(request: Request) -> bool:
    return script("claim").sha.encode() in request.words


@pytest.fixture
def two_items(proxy: FaultProxy, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar that has claimed before, and two items in main. The server does not notice when its connections end."""
    queue.set_policy(LONG)
    sidecar = start_sidecar(proxy.url)
    queue.enqueue("first")
    sidecar.outcomes("done", *(claim["token"] for claim in sidecar.claim()))
    queue.enqueue_many(["a", "b"])
    proxy.ghost()
    return sidecar


def test_what_a_late_call_on_a_ghost_connection_claims_goes_back_uncounted(
    two_items: Sidecar, valkey: Server, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    late = proxy.black_hole_after(matching=is_claim)
    valkey.sigstop()
    with asked(two_items, "/v1/claim", max=2, wait=0) as claiming:
        assert claims_in(claiming) == [], "the sidecar has given up"
    assert late.hit is not None
    valkey.sigcont()
    eventually_sync(lambda: queue.length(State.BUSY) == 2, why="the late call has run")
    proxy.release()
    eventually_sync(lambda: queue.length(State.BUSY) == 0, why="the sidecar has withdrawn it")
    assert proxy.ghosts > 0
    assert texts(queue.peek(9)) == ["a", "b"]
    assert work_on(two_items, [], 2) == ["a", "b"]


def test_what_the_ghost_of_a_killed_sidecar_claims_comes_back_with_its_lease(
    two_items: Sidecar, valkey: Server, proxy: FaultProxy, queue: BlockingQueue, hasty: Policy
) -> None:
    late = proxy.black_hole_after(matching=is_claim)
    valkey.sigstop()
    with asked(two_items, "/v1/claim", max=2, wait=0):
        eventually_sync(lambda: late.hit is not None)
        two_items.kill9()
    valkey.sigcont()
    eventually_sync(lambda: queue.length(State.BUSY) == 2, why="the late call has run")
    eventually_sync(lambda: reaped(queue) == 2)
    proxy.release()
    eventually_sync(lambda: proxy.ghosts > 0)
    queue.set_policy(LONG)
    two_items.start()
    claims = [eventually_sync(lambda: two_items.claim(1, wait=60, encoding="text"))[0] for _ in range(2)]
    assert [(claim["text"], claim["crash_count"]) for claim in claims] == [("a", 1), ("b", 1)]
    assert [verdict_on(two_items, claim["token"]) for claim in claims] == ["done"] * 2
    assert not any(queue.lengths().values())


def test_a_server_that_refuses_the_scripts_is_reported_until_it_runs_them(
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    """As after a failover to a server of another release: it answers reads, and no item can be claimed."""
    server = start_server(options=dict(DURABLE))
    sidecar = start_sidecar(server.url)
    assert sidecar.metric("claimq_sidecar_scripts_refused") == 0
    server.kill9()
    server.options["rename-command"] = 'TIME ""'
    server.start()
    eventually_sync(lambda: sidecar.metric("claimq_sidecar_scripts_refused") == 1)
    assert "event=scripts_refused" in sidecar.log_text
    assert "the server cannot run claimq's scripts: valkey " in sidecar.log_text
    errors = sidecar.metric('claimq_sidecar_store_errors_total{kind="misused"}')
    eventually_sync(lambda: sidecar.metric('claimq_sidecar_store_errors_total{kind="misused"}') >= errors + 2)
    assert "event=store_recovered" not in sidecar.log_text
    assert sidecar.health("/readyz").status == 200
    server.kill9()
    del server.options["rename-command"]
    server.start()
    eventually_sync(lambda: "event=store_recovered" in sidecar.log_text)
    assert sidecar.metric("claimq_sidecar_scripts_refused") == 0
