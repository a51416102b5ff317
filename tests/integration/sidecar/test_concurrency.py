"""CLAIMQ_CONCURRENCY: the app never has more in progress; a claim without a free slot waits for one in turn."""

import json
import signal
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.redis_store.scripts import script
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ProxyFactory
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, UnixConnection

LIMIT = 3


@pytest.fixture
def sidecar(valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar of the queue `q` whose app may have three items in progress."""
    return start_sidecar(valkey.url, concurrency=str(LIMIT))


def in_line(sidecar: Sidecar) -> float:
    return sidecar.metric("claimq_sidecar_claims_waiting")


@contextmanager
def waiting_claim(sidecar: Sidecar, **body: object) -> Generator[UnixConnection]:
    """A claim that has no place yet."""
    before = in_line(sidecar)
    with closing(UnixConnection(sidecar.socket)) as connection:
        connection.request("POST", "/v1/claim", json.dumps({"max": 1, "wait": 60, **body}))
        eventually_sync(lambda: in_line(sidecar) == before + 1)
        yield connection


def claims_in(connection: UnixConnection) -> list[Any]:
    claims: list[Any] = json.loads(connection.getresponse().read())["claims"]
    return claims


def test_a_claim_gets_no_more_items_than_slots_are_free(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(10))
    session = sidecar.open_session()
    first = sidecar.claim(2, session=session.id)
    assert len(sidecar.claim(10)) == LIMIT - len(first)
    assert sidecar.claim(10) == sidecar.claim(10, session=session.id, wait=0.05) == []
    assert queue.length(State.BUSY) == LIMIT
    assert sidecar.outcomes("done", first[0]["token"]) == ["done"]
    assert len(sidecar.claim(10)) == 1


def test_info_and_metrics_have_the_limit_and_the_claims_in_flight(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("a")
    sidecar.claim(10)
    sidecar.claim(11)
    assert (sidecar.info["concurrency"], sidecar.info["in_flight"]) == (LIMIT, 1)
    assert sidecar.metric("claimq_sidecar_concurrency") == LIMIT
    assert sidecar.metric("claimq_sidecar_claims_in_flight") == 1
    assert sidecar.log_text.count("event=claim_over_concurrency asked=10 concurrency=3") == 1
    assert sidecar.log_text.count("event=claim_over_concurrency") == 1


def test_the_health_port_is_where_the_info_says(sidecar: Sidecar) -> None:
    assert (sidecar.info["health_host"], sidecar.info["health_port"]) == ("127.0.0.1", sidecar.health_port)


def test_without_the_setting_there_is_no_limit(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url)
    queue.enqueue_many(str(number) for number in range(100))
    assert len(sidecar.claim(100)) == 100
    assert sidecar.info["concurrency"] is None
    assert sidecar.metric("claimq_sidecar_concurrency") == float("inf")


@pytest.mark.parametrize("verb", ["done", "fail", "requeue", "unclaim"])
def test_any_verdict_frees_a_slot_for_a_waiting_claim(
    sidecar: Sidecar, queue: BlockingQueue, verb: str
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        assert queue.length(State.BUSY) == LIMIT
        sidecar.outcomes(verb, held[1]["token"], **({"error": "it broke"} if verb == "fail" else {}))
        (got,) = claims_in(waiting)
    assert got["payload_base64"] == ("Yg==" if verb == "unclaim" else "ZA==")
    assert queue.length(State.BUSY) == LIMIT


def test_a_claim_with_a_slot_waits_for_items(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Callable[[], int]
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        sidecar.outcomes("done", *(claim["token"] for claim in held))
        eventually_sync(lambda: waiting_claims() == 1)
        queue.enqueue("d")
        assert len(claims_in(waiting)) == 1


def test_a_closed_session_frees_its_slots(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    sidecar.claim(LIMIT, session=session.id)
    with waiting_claim(sidecar, max=2) as waiting:
        session.close()
        claims = claims_in(waiting)
    assert claims[0]["payload_base64"] == "ZA=="
    eventually_sync(lambda: sidecar.info["in_flight"] == len(claims))


def test_claims_that_cannot_be_returned_yet_keep_their_slots(
    sidecar: Sidecar, valkey: Server, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    sidecar.claim(LIMIT, session=session.id)
    valkey.sigstop()
    try:
        session.close()
        eventually_sync(lambda: sidecar.info["in_flight"] == 0)
        assert sidecar.claim() == []  # a claim that asks the store now is answered with 503
    finally:
        valkey.sigcont()
    eventually_sync(sidecar.claim, why="there is room again")


def test_an_expired_lease_frees_a_slot(sidecar: Sidecar, queue: BlockingQueue, hasty: Policy) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    # On a busy machine the leases may be over before this claim is there, so whether it waited cannot be seen.
    assert [claim["crash_count"] for claim in sidecar.claim(1, wait=60)] == [0]


def test_a_lost_claim_frees_its_slot(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    held = sidecar.claim(LIMIT, session=session.id)
    with waiting_claim(sidecar) as waiting:
        queue.unclaim([held[0]["token"]])
        assert sidecar.outcomes("renew", held[0]["token"]) == ["lost"]
        assert [claim["id"] for claim in claims_in(waiting)] == [held[0]["id"]]
    session.close()


def test_claims_of_an_unread_response_free_their_slots_once_returned(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    connection = sidecar.connect()
    body = b'{"max": 3, "wait": 0}'
    connection.sendall(
        b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    eventually_sync(lambda: sidecar.info["in_flight"] == LIMIT)
    with waiting_claim(sidecar, max=2) as waiting:
        connection.close()
        got = claims_in(waiting)
    assert [claim["payload_base64"] for claim in got] == ["YQ==", "Yg=="]


def test_a_wait_without_a_slot_ends_like_one_on_an_empty_queue(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    assert sidecar.post("/v1/claim", wait=0.1) == {"claims": [], "draining": False}
    queue.set_policy(Policy(claim_wait_timeout=0.05))
    assert sidecar.post("/v1/claim") == {"claims": [], "draining": False}
    assert (in_line(sidecar), queue.length(State.MAIN)) == (0, 1)


def test_a_client_that_disconnects_while_it_waits_blocks_no_other(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar), waiting_claim(sidecar) as second:
        pass
    eventually_sync(lambda: in_line(sidecar) == 0)
    with waiting_claim(sidecar) as gone, waiting_claim(sidecar) as stays:
        gone.close()
        eventually_sync(lambda: in_line(sidecar) == 1)
        sidecar.outcomes("done", held[0]["token"])
        assert len(claims_in(stays)) == 1
    assert second.sock is None


def test_a_drain_answers_claims_that_wait_for_a_slot(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        sidecar.running.send(signal.SIGTERM)
        assert json.loads(waiting.getresponse().read()) == {"claims": [], "draining": True}
    sidecar.outcomes("done", *(claim["token"] for claim in held))
    assert sidecar.running.wait() == 0
    assert queue.lengths()[State.MAIN] == 1


def test_a_claim_that_waits_for_a_slot_is_refused_when_its_session_ends(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    session = sidecar.open_session()
    with waiting_claim(sidecar, session=session.id) as waiting:
        session.close()
        assert waiting.getresponse().status == 409
    assert queue.length(State.BUSY) == LIMIT


def script_calls(proxy: FaultProxy, name: str) -> list[int]:
    """At which places among all commands a script was called."""
    sha = script(name).sha.encode()
    return [at for at, request in enumerate(proxy.requests) if sha in request.words]


def with_one_place(
    valkey: Server, queue: BlockingQueue, start_proxy: ProxyFactory, start_sidecar: StartSidecar
) -> tuple[FaultProxy, Sidecar]:
    """A sidecar of concurrency 1 behind a proxy; the item a waits, and the server knows the scripts already."""
    proxy = start_proxy(valkey)
    sidecar = start_sidecar(proxy.url, concurrency="1")
    queue.enqueue("a")
    sidecar.outcomes("unclaim", *(claim["token"] for claim in sidecar.claim()))
    return proxy, sidecar


def test_a_slot_is_free_once_the_claim_of_a_gone_client_is_settled(
    valkey: Server,
    queue: BlockingQueue,
    start_proxy: ProxyFactory,
    start_sidecar: StartSidecar,
    waiting_claims: Callable[[], int],
) -> None:
    proxy, sidecar = with_one_place(valkey, queue, start_proxy, start_sidecar)
    (claim,) = sidecar.claim()
    sidecar.outcomes("done", claim["token"])
    with closing(UnixConnection(sidecar.socket)) as first:
        first.request("POST", "/v1/claim", json.dumps({"max": 1, "wait": 60}))
        eventually_sync(lambda: waiting_claims() == 1)
        with waiting_claim(sidecar, encoding="text") as second:
            lost = proxy.drop_reply(cut=False)
            queue.enqueue_many(["b", "c"])
            eventually_sync(lambda: lost.hit is not None and queue.length(State.BUSY) == 1)
            asked = len(script_calls(proxy, "claim"))
            first.close()
            assert [claim["text"] for claim in claims_in(second)] == ["b"]
            assert script_calls(proxy, "claim")[asked] > script_calls(proxy, "give_back")[-1]
    assert queue.length(State.BUSY) == 1


def test_in_an_outage_a_claim_without_a_slot_gets_an_error(
    valkey: Server, queue: BlockingQueue, start_proxy: ProxyFactory, start_sidecar: StartSidecar
) -> None:
    proxy, sidecar = with_one_place(valkey, queue, start_proxy, start_sidecar)
    proxy.black_hole("replies")
    assert sidecar.ask("POST", "/v1/claim", {"wait": 0}).status == 503
    assert queue.length(State.BUSY) == 1
    answer = sidecar.ask("POST", "/v1/claim", {"wait": 0})
    assert (answer.status, b"outcome of earlier claims is unknown" in answer.body) == (503, True)
    proxy.heal()
    got = eventually_sync(lambda: sidecar.claim(1, encoding="text"))
    assert [claim["text"] for claim in got] == ["a"]
    assert queue.length(State.BUSY) == 1
