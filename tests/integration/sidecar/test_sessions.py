"""Sessions: what they hold is renewed while they are open, and goes back at once when they close."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.programs.processes import Process
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, UnixConnection, is_renewed

APP = """
import json, sys, time
from testkit.workers.sidecars import Sidecar
sidecar = Sidecar("redis://unused")
from pathlib import Path
sidecar.socket = Path(sys.argv[1])
session = sidecar.open_session()
print(json.dumps(sidecar.claim(2, session=session.id)), flush=True)
time.sleep(60)
"""


def test_a_closed_session_gives_back_at_once_and_counts_a_crash(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["a", "b", "c"])
    session = sidecar.open_session()
    assert session.first["busy_expiry"] == 30.0
    sidecar.claim(2, session=session.id)
    session.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 3, why="both are back")
    items = queue.peek(3)
    assert [(item.payload, item.crash_count) for item in items] == [(b"c", 0), (b"a", 1), (b"b", 1)]
    assert "ended its session without a verdict" in (items[1].last_error or "")
    assert f"process {os.getpid()}" in (items[1].last_error or "")


def test_an_app_that_is_killed_loses_nothing(sidecar: Sidecar, queue: BlockingQueue, tmp_path: Path) -> None:
    queue.enqueue_many(["a", "b"])
    log = tmp_path / "log"
    support = str(Path(__file__).parents[2] / "support")
    app = Process([sys.executable, "-c", APP, str(sidecar.socket)], log=log, env={"PYTHONPATH": support})
    eventually_sync(lambda: log.exists() and log.read_text().endswith("\n"), why="the app has claimed")
    assert queue.length(State.BUSY) == 2
    app.kill9()
    eventually_sync(lambda: queue.length(State.BUSY) == 0, why="its items are back")
    assert [item.crash_count for item in queue.peek(2)] == [1, 1]


def test_a_session_keeps_its_claims_beyond_their_lease(
    sidecar: Sidecar, queue: BlockingQueue, brief: Policy
) -> None:
    queue.enqueue_many(["a", "b"])
    session = sidecar.open_session()
    held, plain = sidecar.claim(1, session=session.id) + sidecar.claim(1)

    def only_the_plain_one_expired() -> bool:
        queue.reap()
        return queue.length(State.MAIN) == 1

    eventually_sync(only_the_plain_one_expired)
    assert sidecar.outcomes("done", held["token"], plain["token"]) == ["done", "lost"]
    session.close()


def test_a_verdict_before_the_close_counts(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    session = sidecar.open_session()
    first, _ = sidecar.claim(2, session=session.id)
    assert sidecar.outcomes("done", first["token"]) == ["done"]
    session.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    assert queue.peek(1)[0].payload == b"b"


def test_claims_under_a_session_that_is_not_open_are_refused(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue("a")
    session = sidecar.open_session()
    session.close()
    eventually_sync(lambda: sidecar.info["sessions"] == 0)
    for name in (session.id, "nonsense"):
        answer = sidecar.ask("POST", "/v1/claim", {"session": name})
        assert (answer.status, answer.json["type"]) == (409, "urn:claimq:problem:session-not-open")
    assert queue.length(State.MAIN) == 1


def test_a_claim_that_waits_ends_with_its_session(
    sidecar: Sidecar, waiting_claims: Callable[[], int]
) -> None:
    session = sidecar.open_session()
    connection = UnixConnection(sidecar.socket)
    connection.request("POST", "/v1/claim", json.dumps({"wait": 60, "session": session.id}))
    eventually_sync(lambda: waiting_claims() == 1)
    session.close()
    assert connection.getresponse().status == 409
    connection.close()


def test_a_session_takes_over_claims_of_one_that_broke(
    sidecar: Sidecar, queue: BlockingQueue, brief: Policy
) -> None:
    queue.enqueue("a")
    (claim,) = sidecar.claim()
    session = sidecar.open_session({"tokens": [claim["token"], "w/999.aaaaaaaa"]})
    assert session.first["lost"] == ["w/999.aaaaaaaa"]
    eventually_sync(lambda: is_renewed(queue, claim["token"], claim["lease_until"]))
    assert sidecar.outcomes("done", claim["token"]) == ["done"]
    session.close()


def test_an_item_over_its_processing_time_is_renewed_no_more(
    valkey: Server, queue: BlockingQueue, hasty: Policy, start_sidecar: StartSidecar
) -> None:
    # Over before the first renewal: no answer to one comes after the end of the lease.
    sidecar = start_sidecar(valkey.url, processing_timeout="100ms")
    queue.enqueue("a")
    assert sidecar.health("/worker/livez").status == 200
    session = sidecar.open_session()
    (claim,) = sidecar.claim(1, session=session.id)

    def expired() -> bool:
        queue.reap()
        return queue.length(State.MAIN) == 1

    eventually_sync(expired)
    answer = sidecar.health("/worker/livez")
    assert (answer.status, answer.json["tokens"]) == (503, [claim["token"]])
    assert sidecar.metric("claimq_sidecar_claims_overdue") == 1
    session.close()
    eventually_sync(lambda: sidecar.health("/worker/livez").status == 200)


@pytest.mark.parametrize("answer", ["verdict", "renewal", "takeover", "end"])
def test_an_app_whose_item_was_taken_is_stuck_until_it_answers(
    valkey: Server, queue: BlockingQueue, hasty: Policy, start_sidecar: StartSidecar, answer: str
) -> None:
    sidecar = start_sidecar(valkey.url, processing_timeout="5s")
    queue.enqueue("a")
    session = sidecar.open_session()
    (claim,) = sidecar.claim(1, session=session.id)
    assert [outcome.verdict for outcome in queue.requeue(claim["token"])] == ["requeued"]
    eventually_sync(lambda: sidecar.info["in_flight"] == 0, why="a renewal has reported the claim as lost")
    eventually_sync(lambda: sidecar.health("/worker/livez").status == 503)
    assert sidecar.health("/worker/livez").json["tokens"] == [claim["token"]]
    assert sidecar.metric("claimq_sidecar_claims_overdue") == 1
    if answer == "verdict":
        assert sidecar.outcomes("done", claim["token"]) == ["lost"]
    elif answer == "renewal":
        assert sidecar.outcomes("renew", claim["token"]) == ["lost"]
    else:
        session.close()
        if answer == "takeover":
            session = sidecar.open_session({"tokens": [claim["token"]]})
            assert session.first["lost"] == [claim["token"]]
    eventually_sync(lambda: sidecar.health("/worker/livez").status == 200)
    session.close()


def test_a_claim_whose_client_leaves_while_it_waits_takes_nothing(
    sidecar: Sidecar, queue: BlockingQueue, waiting_claims: Callable[[], int]
) -> None:
    connection = UnixConnection(sidecar.socket)
    connection.request("POST", "/v1/claim", json.dumps({"wait": 60}))
    eventually_sync(lambda: waiting_claims() == 1)
    connection.close()
    eventually_sync(lambda: waiting_claims() == 0)
    queue.enqueue("a")
    (claim,) = sidecar.claim(1, wait=60)
    assert claim["interrupted_count"] == 0
    assert queue.length(State.BUSY) == 1


def test_a_reply_that_is_not_read_gives_its_claims_back(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    connection = sidecar.connect()
    body = b'{"max": 2, "wait": 0}'
    connection.sendall(
        b"POST /v1/claim HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    )
    assert connection.recv(1, socket.MSG_PEEK)
    assert queue.length(State.BUSY) == 2
    connection.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert [(item.payload, item.crash_count) for item in queue.peek(2)] == [(b"a", 0), (b"b", 0)]


async def test_signs_of_life_are_json_and_workers_go_on_over_them(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    with claimq.worker.connect(sidecar.socket) as worker:
        async with claimq.worker.connect_async(sidecar.socket) as other:
            raw = await asyncio.to_thread(sidecar.open_session)
            assert await asyncio.to_thread(raw.any_line) == {"draining": False}
            # The sessions of both workers are older: they have had such a line too.
            queue.enqueue_many(["a", "b"])
            for item in (*worker.claim(1, wait=0), *await other.claim(1, wait=0)):
                assert item.payload in {b"a", b"b"}
            assert sidecar.log_text.count("event=session_opened") == 3


def test_a_session_has_signs_of_life_and_an_end(sidecar: Sidecar) -> None:
    session = sidecar.open_session()
    sidecar.running.send(signal.SIGTERM)
    assert session.line() == {"draining": True}
    assert session.line() is None
    assert sidecar.running.wait() == 0
