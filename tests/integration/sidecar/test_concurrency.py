"""CLAIMQ_CONCURRENCY: the app never has more in hand, and a claim for which there is no room waits for it in turn."""

import json
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.redis_store.scripts import script
from testkit.plugin import ProxyFactory
from testkit.proxy import FaultProxy
from testkit.server import Server
from testkit.sidecars import Sidecar, UnixConnection
from testkit.waiting import eventually_sync

LIMIT = 3


@pytest.fixture
def sidecar(valkey: Server, queue: BlockingQueue, start_sidecar: Callable[..., Sidecar]) -> Sidecar:
    """A sidecar of the queue `q` whose app may have three items in hand."""
    return start_sidecar(valkey.url, concurrency=str(LIMIT))


def in_line(sidecar: Sidecar) -> float:
    return sidecar.metric("claimq_sidecar_waiting_for_a_place")


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


def test_a_claim_gets_what_there_is_room_for_and_no_more_is_busy(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(10))
    session = sidecar.open_session()
    first = sidecar.claim(2, session=session.id)
    assert len(sidecar.claim(10)) == LIMIT - len(first)
    assert sidecar.claim(10) == sidecar.claim(10, session=session.id, wait=0.05) == []
    assert queue.length(State.BUSY) == LIMIT
    assert sidecar.outcomes("done", first[0]["token"]) == ["done"]
    assert len(sidecar.claim(10)) == 1


def test_the_limit_and_what_is_in_hand_are_told(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    sidecar.claim(10)
    sidecar.claim(11)
    assert (sidecar.info["concurrency"], sidecar.info["in_hand"]) == (LIMIT, 1)
    assert sidecar.metric("claimq_sidecar_concurrency") == LIMIT
    assert sidecar.metric("claimq_sidecar_in_hand") == 1
    assert sidecar.log_text.count("event=claim_over_concurrency asked=10 concurrency=3") == 1
    assert sidecar.log_text.count("event=claim_over_concurrency") == 1


def test_the_health_port_is_where_the_info_says(sidecar: Sidecar) -> None:
    assert (sidecar.info["health_host"], sidecar.info["health_port"]) == ("127.0.0.1", sidecar.health_port)


def test_without_the_setting_there_is_no_limit(
    valkey: Server, queue: BlockingQueue, start_sidecar: Callable[..., Sidecar]
) -> None:
    sidecar = start_sidecar(valkey.url)
    queue.enqueue_many(str(number) for number in range(100))
    assert len(sidecar.claim(100)) == 100
    assert sidecar.info["concurrency"] is None
    assert sidecar.metric("claimq_sidecar_concurrency") == float("inf")


@pytest.mark.parametrize("verb", ["done", "fail", "requeue", "unclaim"])
def test_any_verdict_makes_room_for_a_claim_that_waits(
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


def test_claims_get_places_in_the_order_of_asking_a_claim_for_many_too(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(str(number) for number in range(10))
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar, max=10) as many, waiting_claim(sidecar) as one:
        sidecar.outcomes("done", held[0]["token"])
        assert [claim["payload"] for claim in claims_in(many)] == [3]
        sidecar.outcomes("done", held[1]["token"])
        assert [claim["payload"] for claim in claims_in(one)] == [4]


def test_a_claim_that_was_given_a_place_waits_for_items_as_ever(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Callable[[], int]
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        sidecar.outcomes("done", *(claim["token"] for claim in held))
        eventually_sync(lambda: waiting_claims() == 1)
        queue.enqueue("d")
        assert len(claims_in(waiting)) == 1


def test_a_session_that_closes_makes_room(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    sidecar.claim(LIMIT, session=session.id)
    with waiting_claim(sidecar, max=2) as waiting:
        session.close()
        claims = claims_in(waiting)
    assert claims[0]["payload_base64"] == "ZA=="
    eventually_sync(lambda: sidecar.info["in_hand"] == len(claims))


def test_what_cannot_be_given_back_now_keeps_its_places_until_it_is_back(
    sidecar: Sidecar, valkey: Server, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    sidecar.claim(LIMIT, session=session.id)
    valkey.sigstop()
    try:
        session.close()
        eventually_sync(lambda: sidecar.info["in_hand"] == 0)
        assert sidecar.claim() == []  # a claim that asks the store now is answered with 503
    finally:
        valkey.sigcont()
    eventually_sync(sidecar.claim, why="there is room again")


def test_a_plain_lease_that_is_over_makes_room(sidecar: Sidecar, queue: BlockingQueue, hasty: Policy) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        assert [claim["crash_count"] for claim in claims_in(waiting)] == [0]


def test_a_claim_that_is_found_lost_makes_room(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    session = sidecar.open_session()
    held = sidecar.claim(LIMIT, session=session.id)
    with waiting_claim(sidecar) as waiting:
        queue.unclaim([held[0]["token"]])
        assert sidecar.outcomes("renew", held[0]["token"]) == ["lost"]
        assert [claim["id"] for claim in claims_in(waiting)] == [held[0]["id"]]
    session.close()


def test_a_reply_that_nobody_reads_makes_room_when_its_claims_are_back(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    connection = sidecar.connect()
    body = b'{"max": 3, "wait": 0}'
    connection.sendall(
        b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    eventually_sync(lambda: sidecar.info["in_hand"] == LIMIT)
    with waiting_claim(sidecar, max=2) as waiting:
        connection.close()
        got = claims_in(waiting)
    assert [claim["payload_base64"] for claim in got] == ["YQ==", "Yg=="]


def test_a_wait_that_ends_without_a_place_is_answered_like_an_empty_queue(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    assert sidecar.post("/v1/claim", wait=0.1) == {"claims": [], "draining": False}
    queue.set_policy(Policy(claim_wait_timeout=0.05))
    assert sidecar.post("/v1/claim") == {"claims": [], "draining": False}
    assert (in_line(sidecar), queue.length(State.MAIN)) == (0, 1)


def test_a_client_that_leaves_the_line_holds_nobody_up(sidecar: Sidecar, queue: BlockingQueue) -> None:
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


def test_a_drain_answers_those_who_wait_for_a_place(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    held = sidecar.claim(LIMIT)
    with waiting_claim(sidecar) as waiting:
        sidecar.running.send(signal.SIGTERM)
        assert json.loads(waiting.getresponse().read()) == {"claims": [], "draining": True}
    sidecar.outcomes("done", *(claim["token"] for claim in held))
    assert sidecar.running.wait() == 0
    assert queue.lengths()[State.MAIN] == 1


def test_a_session_that_ends_while_its_claim_waits_for_a_place_refuses_it(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar.claim(LIMIT)
    session = sidecar.open_session()
    with waiting_claim(sidecar, session=session.id) as waiting:
        session.close()
        assert waiting.getresponse().status == 409
    assert queue.length(State.BUSY) == LIMIT


def test_what_a_session_takes_over_counts_and_may_be_more_than_the_limit(
    valkey: Server, queue: BlockingQueue, start_sidecar: Callable[..., Sidecar]
) -> None:
    queue.enqueue_many(str(number) for number in range(9))
    before = start_sidecar(valkey.url)
    held = [claim["token"] for claim in before.claim(5)]
    before.kill9()
    sidecar = start_sidecar(valkey.url, concurrency="3")
    session = sidecar.open_session({"tokens": held})
    assert (session.first["lost"], sidecar.info["in_hand"]) == ([], 5)
    sidecar.outcomes("done", *held[:2])
    assert sidecar.claim(10) == []
    sidecar.outcomes("done", *held[2:])
    assert len(sidecar.claim(10)) == LIMIT


def test_many_threads_never_have_more_in_hand_than_the_limit(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(str(number) for number in range(400))
    most = 0

    def work(number: int) -> None:
        with closing(UnixConnection(sidecar.socket)) as connection:
            while True:
                claims = connection.ask("POST", "/v1/claim", {"max": number, "wait": 0.2}).json["claims"]
                if not claims and queue.length(State.MAIN) == 0:
                    break
                for claim in claims:
                    connection.ask("POST", "/v1/done", {"tokens": [claim["token"]]})

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 1, 2, 3, 5, 10)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        most = max(most, queue.length(State.BUSY))
    assert most <= LIMIT
    assert queue.snapshot().counters["done"] == 400


def script_calls(proxy: FaultProxy, name: str) -> list[int]:
    """At which places among all commands a script was called."""
    sha = script(name).sha.encode()
    return [at for at, request in enumerate(proxy.requests) if sha in request.words]


def with_one_place(
    valkey: Server, queue: BlockingQueue, start_proxy: ProxyFactory, start_sidecar: Callable[..., Sidecar]
) -> tuple[FaultProxy, Sidecar]:
    """A sidecar of concurrency 1 behind a proxy; the item a waits, and the server knows the scripts already."""
    proxy = start_proxy(valkey)
    sidecar = start_sidecar(proxy.url, concurrency="1")
    queue.enqueue("a")
    sidecar.outcomes("unclaim", *(claim["token"] for claim in sidecar.claim()))
    return proxy, sidecar


def test_a_place_is_free_when_the_server_has_said_what_a_client_that_hung_up_got(
    valkey: Server,
    queue: BlockingQueue,
    start_proxy: ProxyFactory,
    start_sidecar: Callable[..., Sidecar],
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


def test_the_app_gets_the_reason_when_an_outage_holds_all_places_and_then_continues(
    valkey: Server, queue: BlockingQueue, start_proxy: ProxyFactory, start_sidecar: Callable[..., Sidecar]
) -> None:
    proxy, sidecar = with_one_place(valkey, queue, start_proxy, start_sidecar)
    proxy.black_hole("replies")
    assert sidecar.ask("POST", "/v1/claim", {"wait": 0}).status == 503
    assert queue.length(State.BUSY) == 1
    answer = sidecar.ask("POST", "/v1/claim", {"wait": 0})
    assert (answer.status, b"what earlier claims got" in answer.body) == (503, True)
    proxy.heal()
    got = eventually_sync(lambda: sidecar.claim(1, encoding="text"), within=60.0)
    assert [claim["text"] for claim in got] == ["a"]
    assert queue.length(State.BUSY) == 1
