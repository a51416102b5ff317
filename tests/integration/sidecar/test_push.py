"""Push delivery: a real sidecar sends items to an app that listens, and applies the verdicts of its responses."""

import json
import signal
import threading
from pathlib import Path

import pytest

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import Located, State
from claimq.policy import Policy, RetryDelay
from testkit.plugin import ServerFactory
from testkit.programs.ports import free_port
from testkit.queues.looking import is_empty
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.push_app import Pushed, Reply, StartApp
from testkit.workers.sidecars import StartSidecar, is_renewed


class Gate:
    """An app's answer that waits until the test opens the gate."""

    def __init__(self, reply: Reply | None = None) -> None:
        self.is_open = threading.Event()
        self.reached = threading.Semaphore(0)
        self._reply = reply or Reply()

    def __call__(self, _: Pushed) -> Reply:
        self.reached.release()
        assert self.is_open.wait(PATIENCE)
        return self._reply

    def wait(self, count: int = 1) -> None:
        """Waits until so many requests have arrived."""
        for _ in range(count):
            assert self.reached.acquire(timeout=PATIENCE)


def located(queue: BlockingQueue, item: str) -> Located:
    found = queue.find(item)
    assert found is not None
    return found


def test_items_arrive_on_a_socket_within_the_concurrency(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    app = start_app(socket=tmp_path / "app")
    queue.enqueue_many([json.dumps({"n": number}) for number in range(40)])
    settings = {"push_socket": str(tmp_path / "app"), "push_path": "/items", "concurrency": "4"}
    sidecar = start_sidecar(valkey.url, **settings)
    eventually_sync(lambda: is_empty(queue))
    assert sorted(json.loads(one.body)["n"] for one in app.pushes) == list(range(40))
    assert app.most <= 4
    first = app.pushes[0]
    assert (first.method, first.path) == ("POST", "/items")
    assert first.headers["content-type"] == "application/json"
    assert (first.headers["ce-source"], first.headers["ce-attempt"]) == ("urn:claimq:queue:q", "1")
    assert queue.stats()["done"] == 40
    assert sidecar.metric('claimq_sidecar_pushes_total{result="2xx"}') == 40
    assert sidecar.metric("claimq_sidecar_push_seconds_count") == 40
    assert sidecar.metric("claimq_sidecar_app_ready") == 1


def test_nothing_is_claimed_before_the_app_listens(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    port = free_port()
    queue.enqueue("a")
    sidecar = start_sidecar(valkey.url, push_port=str(port))
    eventually_sync(lambda: "event=waiting_for_app" in sidecar.log_text)
    assert sidecar.metric("claimq_sidecar_app_ready") == 0
    assert queue.stats()["claimed"] == 0
    answer = sidecar.health("/readyz")
    why = f"its app does not listen on $CLAIMQ_PUSH_PORT ({port})"
    assert (answer.status, answer.json) == (503, {"status": "waiting for the app", "why": why})
    app = start_app(port=port)
    eventually_sync(lambda: is_empty(queue))
    assert app.texts == ["a"]
    assert sidecar.health("/readyz").status == 200


def test_pushing_pauses_while_the_probe_fails(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    status = {"GET": 503}
    app = start_app(lambda pushed: Reply(status.get(pushed.method, 200)))
    queue.enqueue("a")
    sidecar = start_sidecar(valkey.url, push_port=str(app.port), push_probe_path="/up")
    eventually_sync(lambda: "status 503" in sidecar.log_text)
    assert queue.stats()["claimed"] == 0
    status["GET"] = 204
    eventually_sync(lambda: is_empty(queue))
    status["GET"] = 500
    eventually_sync(lambda: "event=app_not_ready" in sidecar.log_text)
    queue.enqueue("b")
    claimed = queue.stats()["claimed"]
    eventually_sync(lambda: sidecar.metric("claimq_sidecar_app_ready") == 0)
    assert (claimed, app.texts) == (1, ["a"])
    status["GET"] = 200
    eventually_sync(lambda: is_empty(queue))


def test_the_response_is_the_verdict(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    replies = {
        "done": Reply(204),
        "broken": Reply(0),
        "failed": Reply(500, body=b"disk full"),
        "refused": Reply(422, body=b"no url"),
        "moved": Reply(302, {"location": "http://127.0.0.1:1/"}),
        "later": Reply(200, {"claimq-verdict": "requeue", "retry-after": "3600"}),
    }
    app = start_app(lambda pushed: replies[pushed.text])
    queue.set_policy(Policy(retry_delay=RetryDelay(3600.0, max=3600.0, jitter=0)))
    for name in replies:
        queue.enqueue(name, id=name)
    start_sidecar(valkey.url, push_port=str(app.port))
    ended = {State.MAIN: 0, State.BUSY: 0, State.DELAYED: 4, State.FAILED: 1}
    eventually_sync(lambda: queue.lengths() == ended)
    assert queue.find("done") is None
    expected = {
        "broken": (State.DELAYED, 1, "the app closed the connection before it had responded"),
        "failed": (State.DELAYED, 1, "the app responded with status 500: disk full"),
        "refused": (State.FAILED, 1, "the app responded with status 422: no url"),
        "moved": (State.DELAYED, 1, "the app responded with status 302; redirects are not followed"),
        "later": (State.DELAYED, 0, None),
    }
    found = {name: located(queue, name) for name in expected}
    assert {
        name: (one.state, one.item.fail_count, one.item.last_error) for name, one in found.items()
    } == expected
    assert found["failed"].item.error_detail == "disk full"


def test_a_busy_app_gets_nothing_until_its_retry_after(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    app = start_app(lambda _: Reply(429, {"retry-after": "3600", "claimq-close": "none"}))
    queue.enqueue_many(["a", "b", "c"])
    sidecar = start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: sidecar.metric("claimq_sidecar_pushes_paused") == 1)
    assert not queue.snapshot().paused
    eventually_sync(lambda: queue.length(State.DELAYED) == 1 and queue.length(State.BUSY) == 0)
    assert app.texts == ["a"]
    assert queue.length(State.MAIN) == 2
    (item,) = queue.items(State.DELAYED)
    assert (item.item.requeue_count, item.item.fail_count, item.item.postponed_count) == (0, 0, 1)


def test_an_app_that_is_busy_seven_times_fails_no_item(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    replies = iter([Reply(429, {"retry-after": "0"})] * 7)
    app = start_app(lambda _: next(replies, Reply()))
    queue.enqueue("a")
    start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: queue.stats()["done"] == 1)
    stats = queue.stats()
    assert (stats["postponed"], stats["requeued"], stats["failed"]) == (7, 7, 0)
    assert app.texts == ["a"] * 8


def test_an_app_that_is_busy_too_often_gets_its_item_no_more(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    queue.set_policy(Policy(max_postponed=2))
    app = start_app(lambda _: Reply(503, {"claimq-verdict": "later", "retry-after": "0"}, b"quota"))
    queue.enqueue("a")
    start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: queue.length(State.FAILED) == 1)
    assert app.texts == ["a"] * 3
    (failed,) = queue.failed_items()
    assert failed.item.last_error == "postponed 2 times, as often as max_postponed allows"


def test_a_silent_request_fails_and_others_are_not_starved(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    gate = Gate()
    app = start_app(lambda pushed: gate(pushed) if pushed.text == "silent" else Reply())
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many(["silent", *(f"quick {number}" for number in range(20))])
    settings = {"push_port": str(app.port), "push_timeout": "15s", "concurrency": "2"}
    sidecar = start_sidecar(valkey.url, **settings)
    eventually_sync(lambda: queue.length(State.FAILED) == 1 and queue.stats()["done"] == 20)
    (failed,) = queue.failed_items()
    assert failed.item.last_error == "the app did not respond within 15 s"
    assert sidecar.metric('claimq_sidecar_pushes_total{result="timeout"}') == 1
    gate.is_open.set()


def test_new_items_are_sent_while_an_earlier_one_is_in_progress(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    gate = Gate()
    app = start_app(lambda pushed: gate(pushed) if pushed.text == "slow" else Reply())
    queue.enqueue_many(["slow", "a", "b"])
    start_sidecar(valkey.url, push_port=str(app.port), concurrency="3")
    gate.wait()
    eventually_sync(lambda: queue.stats()["done"] == 2)
    queue.enqueue("c")
    eventually_sync(lambda: queue.stats()["done"] == 3)
    gate.is_open.set()
    eventually_sync(lambda: is_empty(queue))


def test_a_lease_is_renewed_while_the_app_works(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar, brief: Policy
) -> None:
    gate = Gate()
    app = start_app(gate)
    queue.enqueue("a")
    sidecar = start_sidecar(valkey.url, push_port=str(app.port))
    gate.wait()
    (held,) = queue.items(State.BUSY)
    eventually_sync(lambda: is_renewed(queue, held.name, held.lease_until))
    assert sidecar.metric('claimq_sidecar_verdicts_total{verdict="renewed"}') >= 1
    gate.is_open.set()
    eventually_sync(lambda: is_empty(queue))
    assert queue.stats()["claimed"] == 1


def test_a_drain_waits_for_the_responses_and_sends_nothing_more(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    gate = Gate()
    app = start_app(gate)
    queue.enqueue_many(["a", "b", "c"])
    sidecar = start_sidecar(valkey.url, push_port=str(app.port), concurrency="2")
    gate.wait(2)
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: sidecar.info["draining"])
    assert sidecar.running.is_running
    gate.is_open.set()
    assert sidecar.running.wait() == 0
    assert sorted(app.texts) == ["a", "b"]
    assert [item.payload for item in queue.peek(3)] == [b"c"]
    assert queue.stats()["done"] == 2


def test_an_app_that_dies_in_a_drain_is_an_interruption(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    gate = Gate(Reply(0))
    app = start_app(gate)
    queue.enqueue_many(["a", "b"])
    sidecar = start_sidecar(valkey.url, push_port=str(app.port))
    gate.wait()
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: sidecar.info["draining"])
    gate.is_open.set()
    assert sidecar.running.wait() == 0
    items = queue.peek(2)
    assert [(item.payload, item.fail_count, item.crash_count) for item in items] == [
        (b"a", 0, 0),
        (b"b", 0, 0),
    ]
    assert items[0].interrupted_count == 1


def test_what_is_left_after_the_drain_time_goes_back_uncounted(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    gate = Gate()
    app = start_app(gate)
    queue.enqueue("a")
    sidecar = start_sidecar(valkey.url, push_port=str(app.port), drain_timeout="100ms")
    gate.wait()
    assert sidecar.running.terminate() == 0
    (item,) = queue.peek(1)
    assert (item.fail_count, item.interrupted_count) == (0, 1)
    gate.is_open.set()


def test_a_verdict_outlives_an_outage_of_the_store(
    start_server: ServerFactory, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    store = start_server(options=DURABLE)
    gates = {name: Gate(reply) for name, reply in (("a", Reply()), ("b", Reply(500)))}
    app = start_app(lambda pushed: gates[pushed.text](pushed))
    with claimq.blocking.connect(store.url) as server:
        queue = server.queue("q")
        queue.set_policy(Policy(requeue_limit=0))
        queue.enqueue_many(["a", "b"])
        start_sidecar(store.url, push_port=str(app.port), concurrency="2")
        for gate in gates.values():
            gate.wait()
        store.kill9()
        for gate in gates.values():
            gate.is_open.set()
        eventually_sync(lambda: len(app.pushes) == 2)
        store.start()
        eventually_sync(lambda: queue.lengths() == {**dict.fromkeys(State, 0), State.FAILED: 1})
        assert queue.failed_items()[0].item.last_error == "the app responded with status 500"
    assert sorted(app.texts) == ["a", "b"]


def test_a_verdict_that_the_store_refuses_is_repeated(
    start_server: ServerFactory, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    store = start_server()
    gates = {name: Gate(reply) for name, reply in (("a", Reply()), ("b", Reply(422)))}
    app = start_app(lambda pushed: gates[pushed.text](pushed))
    with claimq.blocking.connect(store.url) as server:
        queue = server.queue("q")
        queue.enqueue_many(["a", "b"])
        sidecar = start_sidecar(store.url, push_port=str(app.port), concurrency="2")
        for gate in gates.values():
            gate.wait()
        store.call("ACL", "SETUSER", "default", "-evalsha")
        for gate in gates.values():
            gate.is_open.set()
        refused = 'claimq_sidecar_store_errors_total{kind="misused"}'
        eventually_sync(lambda: sidecar.metric(refused) >= 3)
        store.call("ACL", "SETUSER", "default", "+evalsha")
        eventually_sync(lambda: queue.lengths() == {**dict.fromkeys(State, 0), State.FAILED: 1})
    assert sorted(app.texts) == ["a", "b"]


def test_unclaim_with_a_time_pauses_without_counting(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    app = start_app(lambda _: Reply(503, {"claimq-verdict": "unclaim", "retry-after": "3600"}))
    queue.enqueue_many(["a", "b"])
    sidecar = start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: sidecar.metric("claimq_sidecar_pushes_paused") == 1)
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert app.texts == ["a"]
    assert [(item.payload, item.requeue_count) for item in queue.peek(2)] == [(b"a", 0), (b"b", 0)]


PAUSES = {
    "429": Reply(429, {"retry-after": "1"}),
    "503": Reply(503, {"retry-after": "1", "claimq-close": "none"}),
    "unclaim": Reply(503, {"claimq-verdict": "unclaim", "retry-after": "1"}),
}


@pytest.mark.parametrize("name", PAUSES)
def test_items_are_sent_again_by_themselves_when_a_pause_ends(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar, name: str
) -> None:
    replies = iter([PAUSES[name]])
    app = start_app(lambda _: next(replies, Reply()))
    queue.enqueue_many(["a", "b", "c"])
    sidecar = start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: queue.stats()["done"] == 3)
    assert app.texts[0] == "a"
    assert sorted(app.texts[1:]) == ["a", "b", "c"]
    assert is_empty(queue)
    assert sidecar.metric("claimq_sidecar_pushes_paused") == 0
    event = "push_closed unit=queue" if name == "429" else "push_paused"
    assert sidecar.log_text.count(f"event={event} seconds=1") == 1


def test_items_of_a_failed_batch_are_tried_one_by_one(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    app = start_app(lambda pushed: Reply(500 if b'"poison"' in pushed.body else 200))
    queue.set_policy(Policy(requeue_limit=1))
    for name in ("a", "poison", "b"):
        queue.enqueue(name, id=name)
    settings = {"push_mode": "batched", "push_batch_size": "3", "concurrency": "3"}
    start_sidecar(valkey.url, push_port=str(app.port), **settings)
    eventually_sync(lambda: queue.lengths() == {**dict.fromkeys(State, 0), State.FAILED: 1})
    assert queue.failed_items()[0].item.id == "poison"
    alone = [ids for ids in app.events() if len(ids) == 1]
    assert sorted(alone[-3:]) == [["a"], ["b"], ["poison"]]
