"""/v1/next ends the last items and claims the next ones in one request; /v1/verdicts ends items in different ways."""

import http.client
import json
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any, BinaryIO

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.redis_store.scripts import script
from claimq.worker.wire import request
from testkit.faults.proxy import FaultProxy
from testkit.queues.clock import move_clock
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.sidecars import Answer, Sidecar, StartSidecar, UnixConnection


def verdicts(reply: Any) -> list[str]:
    return [one["outcome"] for one in reply["outcomes"]]


def payloads(reply: Any) -> list[str]:
    return [claim["text"] for claim in reply["claims"]]


def next_items(sidecar: Sidecar, *done: str, **body: object) -> Any:
    """Done with these, and the next items."""
    words = {"wait": 0, "encoding": "text", "done": [{"token": token} for token in done], **body}
    return sidecar.post("/v1/next", **words)


def first(sidecar: Sidecar, **body: object) -> str:
    token: str = next_items(sidecar, **body)["claims"][0]["token"]
    return token


@pytest.fixture
def one_by_one(proxy: FaultProxy, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar behind the proxy whose app may have one item in progress."""
    queue.enqueue_many(["a", "b", "c"])
    return start_sidecar(proxy.url, concurrency="1")


def body_of(replies: BinaryIO) -> Any:
    """The JSON of the next response on a connection."""
    replies.readline()
    headers = http.client.parse_headers(replies)
    return json.loads(replies.read(int(headers["content-length"])))


def is_step(call: Any) -> bool:
    """Whether it is the call that ends claims and claims the next items."""
    return bool(call.name == "EVALSHA" and call.words[1] == script("done_claim").sha.encode())


def test_each_item_costs_one_call_to_the_store(
    one_by_one: Sidecar, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    reply = next_items(one_by_one, token)  # also loads the script
    before = proxy.count("EVALSHA")
    reply = next_items(one_by_one, reply["claims"][0]["token"])
    assert proxy.count("EVALSHA") == before + 1
    assert (verdicts(reply), payloads(reply), reply["draining"]) == (["done"], ["c"], False)
    assert queue.lengths()[State.BUSY] == 1
    assert one_by_one.info["in_flight"] == 1
    assert verdicts(next_items(one_by_one, reply["claims"][0]["token"])) == ["done"]
    assert one_by_one.metric('claimq_sidecar_verdicts_total{verdict="done"}') == 3
    assert one_by_one.metric("claimq_sidecar_claimed_items_total") == 3


def test_it_waits_for_an_item_when_none_waits(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Callable[[], int]
) -> None:
    queue.enqueue("a")
    token = first(sidecar)
    with closing(UnixConnection(sidecar.socket)) as connection:
        connection.request("POST", "/v1/next", json.dumps({"done": [{"token": token}], "wait": 60}))
        eventually_sync(lambda: waiting_claims() == 1)
        assert queue.lengths()[State.BUSY] == 0
        queue.enqueue("b")
        reply = json.loads(connection.getresponse().read())
    assert verdicts(reply) == ["done"]
    assert reply["claims"][0]["payload_base64"] == "Yg=="


def test_other_verdicts_are_followed_by_a_claim_too(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.set_policy(retrying_at_once())
    queue.enqueue_many(["a", "b", "c", "d"])
    a, b, c = (claim["token"] for claim in sidecar.claim(3))
    words = {"fail": [{"token": a, "error": "no"}], "requeue": [{"token": b, "delay": 60}]}
    reply = next_items(sidecar, unclaim=[{"token": c}], max=2, **words)
    assert verdicts(reply) == ["requeued", "delayed", "unclaimed"]
    assert payloads(reply) == ["c", "d"]
    followed = {"token": reply["claims"][0]["token"], "enqueue": [{"text": "e"}]}
    reply = next_items(sidecar, max=3, done=[followed])
    assert (verdicts(reply), payloads(reply)) == (["done"], ["a", "e"])


def test_the_claim_is_made_although_the_last_item_was_lost(one_by_one: Sidecar, queue: BlockingQueue) -> None:
    token = first(one_by_one)
    queue.loop.run(lambda: move_clock(queue.wrapped, 31))
    queue.reap()
    reply = next_items(one_by_one, token)
    assert (verdicts(reply), payloads(reply)) == (["lost"], ["b"])
    assert one_by_one.info["in_flight"] == 1


def test_a_repeated_request_reports_the_verdict_and_claims(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])
    token = first(sidecar)
    next_items(sidecar, token)
    again = next_items(sidecar, token)
    assert again["outcomes"] == [{"token": token, "outcome": "already_done", "earlier": "done"}]
    assert payloads(again) == ["c"]


def test_what_an_app_that_is_gone_has_not_read_goes_back(
    one_by_one: Sidecar, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    proxy.delay(0.2)
    with closing(UnixConnection(one_by_one.socket)) as connection:
        connection.request("POST", "/v1/next", json.dumps({"done": [{"token": token}], "wait": 0}))
    proxy.delay(0)
    eventually_sync(lambda: one_by_one.info["in_flight"] == 0 and queue.lengths()[State.MAIN] == 2)
    again = next_items(
        one_by_one, token, wait=60
    )  # for the slot, until the sidecar knows that the item is back
    assert (verdicts(again), payloads(again)) == (["already_done"], ["b"])


def test_what_a_gone_app_has_claimed_goes_back(
    one_by_one: Sidecar, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    queue.update_policy(busy_expiry=3600)  # no lease ends here
    one_by_one.claim(1, wait=0)
    one_by_one.outcomes("unclaim", queue.items("busy")[0].name)
    proxy.delay(0.2)
    with closing(UnixConnection(one_by_one.socket)) as connection:
        connection.request("POST", "/v1/claim", json.dumps({"max": 1, "wait": 0}))
        eventually_sync(lambda: queue.length(State.BUSY) == 1)
    proxy.delay(0)
    eventually_sync(lambda: one_by_one.info["in_flight"] == 0 and queue.lengths()[State.MAIN] == 3)
    assert payloads(next_items(one_by_one, wait=60)) == ["a"]
    assert [item.requeue_count for item in queue.peek(2)] == [0, 0]


def test_a_lost_reply_of_the_store_is_made_up_for(one_by_one: Sidecar, proxy: FaultProxy) -> None:
    token = first(one_by_one)
    fault = proxy.drop_reply(1, matching=is_step)
    reply = next_items(one_by_one, token)
    assert fault.hit is not None
    assert (verdicts(reply), payloads(reply)) == (["done"], ["b"])
    assert one_by_one.info["in_flight"] == 1


def test_what_a_late_call_claims_goes_back_and_the_verdict_is_known(
    one_by_one: Sidecar, valkey: Server, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    with closing(UnixConnection(one_by_one.socket)) as connection:  # which the app keeps
        valkey.sigstop()
        try:
            refused = connection.ask("POST", "/v1/next", {"done": [{"token": token}], "wait": 0})
        finally:
            valkey.sigcont()
        assert refused.status == 503
        eventually_sync(lambda: queue.lengths()[State.BUSY] == 0 and one_by_one.info["in_flight"] == 0)
        again = next_items(one_by_one, token, wait=60)  # likewise
    assert (again["outcomes"][0]["outcome"], payloads(again)) == ("already_done", ["b"])


def test_the_concurrency_is_never_exceeded_by_many_workers(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="3")
    queue.enqueue_many(str(number) for number in range(200))
    seen: list[str] = []
    most: list[int] = []

    def work() -> None:
        tokens: list[str] = []
        with closing(UnixConnection(sidecar.socket)) as connection:
            while True:
                body = {"wait": 0.3, "encoding": "text", "done": [{"token": token} for token in tokens]}
                claims = connection.ask("POST", "/v1/next", body).json["claims"]
                if not claims:
                    return
                tokens = [claim["token"] for claim in claims]
                seen.extend(claim["text"] for claim in claims)
                most.append(queue.length(State.BUSY))

    workers = [threading.Thread(target=work) for _ in range(5)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(PATIENCE)
    assert sorted(seen, key=int) == [str(number) for number in range(200)]
    assert max(most) <= 3
    assert sidecar.info["in_flight"] == 0


def test_an_earlier_claim_that_waits_for_a_slot_comes_first(
    one_by_one: Sidecar, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    with closing(UnixConnection(one_by_one.socket)) as waiting:
        waiting.request("POST", "/v1/claim", json.dumps({"wait": 60, "encoding": "text"}))
        eventually_sync(lambda: one_by_one.metric("claimq_sidecar_claims_waiting") == 1)
        assert payloads(next_items(one_by_one, token)) == []
        assert payloads(json.loads(waiting.getresponse().read())) == ["b"]


def test_a_drain_takes_the_verdict_and_gives_no_item(one_by_one: Sidecar, queue: BlockingQueue) -> None:
    token = first(one_by_one)
    answers: list[Answer] = []
    draining = threading.Thread(target=lambda: answers.append(one_by_one.drain()))
    draining.start()
    eventually_sync(lambda: one_by_one.info["draining"])
    reply = next_items(one_by_one, token, wait=60)
    assert (verdicts(reply), reply["claims"], reply["draining"]) == (["done"], [], True)
    draining.join(PATIENCE)
    assert [answer.status for answer in answers] == [200]


def test_a_drain_during_the_call_returns_what_it_claims(
    one_by_one: Sidecar, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    proxy.black_hole("replies")
    with closing(UnixConnection(one_by_one.socket)) as connection:
        connection.request("POST", "/v1/next", json.dumps({"done": [{"token": token}], "wait": 60}))
        eventually_sync(lambda: any(map(is_step, proxy.requests)))
        one_by_one.begin_drain()
        proxy.heal()
        reply = json.loads(connection.getresponse().read())
    assert (verdicts(reply), reply["claims"], reply["draining"]) == (["done"], [], True)
    assert one_by_one.running.wait() == 0
    assert queue.lengths()[State.MAIN] == 2
    assert [item.interrupted_count for item in queue.peek(2)] == [1, 0]


def test_a_killed_sidecar_loses_neither_the_item_before_nor_the_next_one(
    one_by_one: Sidecar, proxy: FaultProxy, queue: BlockingQueue
) -> None:
    """Killed between the step on the server and its reply: the first item is done, the next comes back."""
    token = first(one_by_one)
    queue.set_policy(Policy(busy_expiry=0.6))  # for the claim of the step alone
    proxy.drop_reply(1, matching=is_step, cut=False)
    with closing(UnixConnection(one_by_one.socket)) as connection:
        connection.request("POST", "/v1/next", json.dumps({"done": [{"token": token}], "wait": 0}))
        eventually_sync(lambda: queue.stats()["done"] == 1)
        one_by_one.kill9()
    queue.set_policy(Policy())
    one_by_one.start()
    assert verdicts(next_items(one_by_one, token, max=1)) == ["lost"]

    def others_are_there() -> bool:
        queue.reap()
        return (
            queue.lengths()[State.MAIN] + queue.lengths()[State.BUSY] == 2 and queue.stats()["crashes"] == 1
        )

    eventually_sync(others_are_there)


def test_a_closed_session_is_refused_before_the_verdict(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    token = first(sidecar)
    refused = sidecar.ask("POST", "/v1/next", {"done": [{"token": token}], "session": "gone"})
    assert (refused.status, queue.length(State.BUSY)) == (409, 1)


def test_its_claims_belong_to_the_session(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    session = sidecar.open_session()
    token = first(sidecar, session=session.id)
    assert payloads(next_items(sidecar, token, session=session.id)) == ["b"]
    session.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    assert queue.peek(1)[0].crash_count == 1


def test_one_request_ends_a_batch_in_different_ways(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.set_policy(retrying_at_once())
    queue.enqueue_many(["a", "b", "c", "d", "e", "f"])
    a, b, c, d, e, f = (claim["token"] for claim in sidecar.claim(6))
    body = {
        "unclaim": [{"token": e}],
        "done": [{"token": a, "enqueue": [{"text": "a2"}]}, {"token": "w/99.aaaaaaaa"}],
        "fail": [
            {"token": b, "error": "no", "permanent": True},
            {"token": c, "error": "no", "detail": "x.py:1"},
        ],
        "requeue": [{"token": d, "delay": 60}],
        "later": [{"token": f, "delay": 60}],
    }
    reply = sidecar.post("/v1/verdicts", **body)
    assert [one["token"] for one in reply["outcomes"]] == [a, "w/99.aaaaaaaa", b, c, d, f, e]
    assert verdicts(reply) == ["done", "lost", "failed", "requeued", "delayed", "delayed", "unclaimed"]
    postponed = {located.item.text: located.item.postponed_count for located in queue.items(State.DELAYED)}
    assert postponed == {"d": 0, "f": 1}
    assert [item.payload for item in queue.peek(5)] == [b"e", b"a2", b"c"]
    again = sidecar.post("/v1/verdicts", **body)
    assert verdicts(again) == ["already_done", "lost", *["already_done"] * 5]
    assert sidecar.info["in_flight"] == 0


def test_a_postponement_needs_a_delay(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (claim,) = sidecar.claim(1)
    refused = sidecar.ask("POST", "/v1/later", {"tokens": [claim["token"]]})
    assert (refused.status, "delay" in str(refused.json)) == (400, True)
    assert verdicts(sidecar.post("/v1/later", tokens=[claim["token"]], delay=0)) == ["requeued"]
    (again,) = sidecar.claim(1)
    assert (again["postponed_count"], "postponed_count" in claim) == (1, False)


def test_a_token_in_two_verdicts_is_refused(sidecar: Sidecar) -> None:
    body = {
        "done": [{"token": "w/1.aaaaaaaa"}],
        "fail": [{"token": "w/2.aaaaaaaa", "error": "x"}, {"token": "w/1.aaaaaaaa", "error": "y"}],
    }
    for path in ("/v1/verdicts", "/v1/next"):
        refused = sidecar.ask("POST", path, body)
        assert refused.status == 400
        assert [one["pointer"] for one in refused.json["errors"]] == [""]


def test_a_verdict_that_failed_is_repeated_with_the_others(
    start_sidecar: StartSidecar, proxy: FaultProxy, valkey: Server, queue: BlockingQueue
) -> None:
    sidecar = start_sidecar(proxy.url)
    queue.enqueue_many(["a", "b"])
    a, b = (claim["token"] for claim in sidecar.claim(2))
    valkey.call("CONFIG", "SET", "maxmemory", "1")
    body = {"done": [{"token": a, "enqueue": [{"text": "next"}]}], "fail": [{"token": b, "error": "no"}]}
    refused = sidecar.ask("POST", "/v1/verdicts", body)
    assert refused.status == 507
    valkey.call("CONFIG", "SET", "maxmemory", "0")
    assert verdicts(sidecar.post("/v1/verdicts", **body)) == ["done", "already_done"]


def test_a_repeated_request_gets_no_item_beyond_the_concurrency(
    one_by_one: Sidecar, valkey: Server, queue: BlockingQueue
) -> None:
    token = first(one_by_one)
    step = json.dumps({"done": [{"token": token}], "wait": 0, "encoding": "text"})
    with closing(UnixConnection(one_by_one.socket)) as one, closing(UnixConnection(one_by_one.socket)) as two:
        valkey.sigstop()
        for connection in (one, two):
            connection.request("POST", "/v1/next", step)
        assert one_by_one.info["in_flight"] == 1  # which is asked after both
        valkey.sigcont()
        replies = [json.loads(connection.getresponse().read()) for connection in (one, two)]
    assert sorted(verdicts(reply)[0] for reply in replies) == ["already_done", "done"]
    assert sorted(map(payloads, replies)) == [[], ["b"]]
    assert (one_by_one.info["in_flight"], queue.length(State.BUSY)) == (1, 1)


def test_a_lease_that_ends_during_the_call_frees_no_slot(
    valkey: Server, proxy: FaultProxy, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    sidecar = start_sidecar(proxy.url, concurrency="2")
    tokens = [first(sidecar), first(sidecar)]
    queue.set_policy(Policy(busy_expiry=0.6))  # for the renewal alone
    valkey.call("SCRIPT", "FLUSH")  # the lost reply says so, and the call takes effect when it is repeated
    lost = proxy.drop_reply(1, matching=is_step, cut=False)  # so that the call lasts longer
    with closing(sidecar.connect()) as stepping, ExitStack() as opened:
        step = {"done": [{"token": tokens[1]}], "wait": 0}
        stepping.sendall(
            request("/v1/renew", json.dumps({"tokens": tokens}).encode())
            + request("/v1/next", json.dumps(step).encode())
        )
        eventually_sync(lambda: lost.hit is not None)
        queue.set_policy(Policy())
        for _ in range(2):
            waiting = opened.enter_context(closing(UnixConnection(sidecar.socket)))
            waiting.request("POST", "/v1/claim", json.dumps({"wait": 60}))
        replies = stepping.makefile("rb")
        assert [one["outcome"] for one in body_of(replies)["outcomes"]] == ["renewed"] * 2
        assert len(body_of(replies)["claims"]) == 1
        eventually_sync(
            lambda: sidecar.info["in_flight"] == 2, why="the slot of the other item is used again"
        )
        assert sidecar.metric("claimq_sidecar_claims_waiting") == 1
