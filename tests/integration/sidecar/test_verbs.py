"""The verbs of the socket, one by one, on a real queue."""

import base64
import json
import subprocess
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.queues.looking import is_empty
from testkit.workers.sidecars import Sidecar, UnixConnection

pytestmark = pytest.mark.usefixtures("retries_at_once")


def test_what_is_claimed_and_done_is_gone(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue({"n": 1}, id="first", client="ann")
    (claim,) = sidecar.claim()
    assert claim["payload"] == {"n": 1}
    assert (claim["id"], claim["client"], claim["requeue_count"]) == ("first", "ann", 0)
    assert claim["token"].startswith("w/")
    assert claim["lease_until"] - claim["claimed_at"] == 30.0
    assert sidecar.outcomes("done", claim["token"]) == ["done"]
    assert is_empty(queue)


def test_a_repeated_verdict_differs_from_a_lost_claim(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("x")
    (claim,) = sidecar.claim()
    assert sidecar.outcomes("fail", claim["token"], error="no") == ["requeued"]
    again = sidecar.post("/v1/fail", tokens=[claim["token"]], error="no")["outcomes"]
    assert again == [{"token": claim["token"], "outcome": "already_done", "earlier": "requeued"}]
    assert sidecar.outcomes("done", claim["token"]) == ["lost"]
    assert queue.length(State.MAIN) == 1


def test_a_verdict_has_an_answer_for_every_token_in_order(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    first, second = (claim["token"] for claim in sidecar.claim(2))
    outcomes = sidecar.post("/v1/done", tokens=[second, "w/999.aaaaaaaa", "other/1.aaaaaaaa", first])[
        "outcomes"
    ]
    assert [one["token"] for one in outcomes] == [second, "w/999.aaaaaaaa", "other/1.aaaaaaaa", first]
    assert [one["outcome"] for one in outcomes] == ["done", "lost", "lost", "done"]


def test_done_enqueues_what_follows_in_the_same_step(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    first, second = (claim["token"] for claim in sidecar.claim(2))
    new = [{"payload": [1]}, {"text": "t", "delay": 60}]
    sidecar.post("/v1/verdicts", done=[{"token": first, "enqueue": new}])
    assert queue.lengths()[State.MAIN] == 1
    assert queue.lengths()[State.DELAYED] == 1
    sidecar.post(
        "/v1/verdicts", done=[{"token": second, "enqueue": [{"text": "u"}]}, {"token": "w/99.aaaaaaaa"}]
    )
    assert [item.payload for item in queue.peek(5)] == [b"[1]", b"u"]


def test_fail_keeps_the_reason_and_permanent_goes_to_failed(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    first, second = (claim["token"] for claim in sidecar.claim(2))
    claims = [{"token": second, "error": "bad"}, {"token": first, "error": "broken", "permanent": True}]
    outcomes = sidecar.post("/v1/verdicts", fail=claims)["outcomes"]
    assert [(one["token"], one["outcome"]) for one in outcomes] == [(second, "requeued"), (first, "failed")]
    (failed,) = queue.items(State.FAILED, 10)
    assert (failed.item.payload, failed.item.last_error) == (b"a", "broken")


def test_fail_keeps_the_detail_of_each_claim(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    a, b = (claim["token"] for claim in sidecar.claim(2))
    failures = [
        {"token": a, "error": "no", "detail": "a.py:1"},
        {"token": b, "error": "no", "detail": "x" * 3000},
    ]
    sidecar.post("/v1/verdicts", fail=failures)
    assert [item.error_detail for item in queue.peek(2)] == ["a.py:1", "x" * 2000]
    token = sidecar.claim()[0]["token"]
    sidecar.post("/v1/fail", tokens=[token], error="no", detail="a.py:2")
    assert queue.peek(2)[1].error_detail == "a.py:2"


def test_fail_takes_the_delay_of_each_claim(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    a, b = (claim["token"] for claim in sidecar.claim(2))
    claims = [{"token": a, "error": "no", "delay": 60}, {"token": b, "error": "no"}]
    outcomes = sidecar.post("/v1/verdicts", fail=claims)["outcomes"]
    assert [(one["outcome"], one.get("delay")) for one in outcomes] == [("delayed", 60.0), ("requeued", None)]


def test_requeue_with_a_delay_and_unclaim_to_the_head(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c"])
    a, b, c = (claim["token"] for claim in sidecar.claim(3))
    outcome = sidecar.post("/v1/requeue", tokens=[a], delay=60)["outcomes"][0]
    assert (outcome["outcome"], outcome["delay"]) == ("delayed", 60.0)
    assert sidecar.outcomes("unclaim", b, c) == ["unclaimed", "unclaimed"]
    assert [item.payload for item in queue.peek(5)] == [b"b", b"c"]
    assert [item.requeue_count for item in queue.peek(5)] == [0, 0]


def test_renew_moves_the_lease(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    (claim,) = sidecar.claim()
    (outcome,) = sidecar.post("/v1/renew", tokens=[claim["token"]])["outcomes"]
    assert outcome["outcome"] == "renewed"
    assert outcome["lease_until"] >= claim["lease_until"]
    assert sidecar.outcomes("renew", "w/999.aaaaaaaa") == ["lost"]


def test_payloads_come_as_they_were_stored(sidecar: Sidecar, queue: BlockingQueue) -> None:
    payloads = [b'{"a": 1.50, "a": 2}', b"\x00\xff", b"plain", b"NaN", b"[" * 3000, "\u00e9".encode()]
    queue.enqueue_many(payloads)
    raw = sidecar.ask("POST", "/v1/claim", {"max": 1, "wait": 0}).body
    assert b'"payload":{"a": 1.50, "a": 2}' in raw
    others = sidecar.claim(5)
    assert [base64.b64decode(claim["payload_base64"]) for claim in others] == payloads[1:]


def test_encodings_are_a_choice_of_the_app(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["plain", b"\xff", "[1]"])
    texts = sidecar.claim(3, encoding="text")
    assert [claim.get("text") for claim in texts] == ["plain", None, "[1]"]
    assert texts[1]["payload_base64"] == "/w=="
    sidecar.outcomes("unclaim", *(claim["token"] for claim in texts))
    assert [claim["payload_base64"] for claim in sidecar.claim(3, encoding="base64")] == [
        "cGxhaW4=",
        "/w==",
        "WzFd",
    ]


def test_enqueue_takes_json_text_and_bytes(sidecar: Sidecar, queue: BlockingQueue) -> None:
    items = [
        {"payload": {"a": [1, None]}, "id": "one"},
        {"text": "hello", "client": "ann"},
        {"payload_base64": "AP8="},
        {"payload": "s", "delay": 60},
        {"payload": None},
    ]
    reply = sidecar.post("/v1/enqueue", items=items)
    assert (len(reply["ids"]), reply["ids"][0], reply["length"]) == (5, "one", 4)
    claims = queue.claim(10, wait=0)
    assert {claim.item.payload for claim in claims} == {b'{"a": [1, null]}', b"hello", b"\x00\xff", b"null"}
    again = sidecar.post("/v1/enqueue", items=items[:1])
    assert again["duplicates"] == ["one"]


def test_a_waiting_claim_returns_when_an_item_comes(sidecar: Sidecar, queue: BlockingQueue) -> None:
    connection = UnixConnection(sidecar.socket)
    connection.request("POST", "/v1/claim", json.dumps({"wait": 60}))
    queue.enqueue("late")
    claims = json.loads(connection.getresponse().read())["claims"]
    assert claims[0]["payload_base64"] == "bGF0ZQ=="
    connection.close()


def test_more_claims_wait_than_there_are_places_on_the_server(sidecar: Sidecar, queue: BlockingQueue) -> None:
    connections = [UnixConnection(sidecar.socket) for _ in range(30)]
    for connection in connections:
        connection.request("POST", "/v1/claim", json.dumps({"wait": 60}))
    queue.enqueue_many([str(number) for number in range(30)])
    seen = [json.loads(connection.getresponse().read())["claims"] for connection in connections]
    assert sorted(int(claim["payload"]) for (claim,) in seen) == list(range(30))
    for connection in connections:
        connection.close()


def test_large_payloads_do_not_all_come_in_one_reply(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many([b"x" * 1_000_000] * 40)
    claims = sidecar.claim(40)
    assert 2 <= len(claims) <= 8
    assert queue.length(State.BUSY) == len(claims)


def test_curl_is_all_that_a_shell_needs(sidecar: Sidecar, queue: BlockingQueue) -> None:
    def curl(path: str, body: str) -> Any:
        command = [
            "curl",
            "-sS",
            "--fail-with-body",
            "--unix-socket",
            str(sidecar.socket),
            f"http://claimq{path}",
            "-d",
            body,
        ]
        return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)

    curl("/v1/enqueue", '{"items": [{"payload": {"url": "cat.png"}}]}')
    claimed = curl("/v1/claim", '{"max": 1, "wait": 5}')
    (claim,) = claimed["claims"]
    assert claim["payload"] == {"url": "cat.png"}
    done = curl("/v1/done", json.dumps({"tokens": [claim["token"]]}))
    assert done == {"outcomes": [{"token": claim["token"], "outcome": "done"}]}
    assert is_empty(queue)
