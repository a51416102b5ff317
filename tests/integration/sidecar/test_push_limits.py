"""Pushes to an app that cannot take all that it gets: it accepts no connections, refuses requests, or is silent."""

import signal
import threading
from pathlib import Path

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.push_app import PushApp, Pushed, Reply
from testkit.workers.sidecars import StartSidecar

LIMIT = "claimq_sidecar_push_limit"
TIMEOUTS = 'claimq_sidecar_pushes_total{result="timeout"}'


class Rounds:
    """Answers of an app to its requests: each waits for the end of a round. A request has the reply
    of the round in which it arrives, and 200 after all rounds."""

    def __init__(self, *replies: Reply) -> None:
        self._replies = replies
        self._round = 0
        self._changed = threading.Condition()
        self.arrived = threading.Semaphore(0)

    def __call__(self, pushed: Pushed) -> Reply:
        with self._changed:
            mine = self._round
            if mine < len(self._replies):
                self.arrived.release()
                assert self._changed.wait_for(lambda: self._round > mine, PATIENCE)
                return self._replies[mine]
        return Reply()

    def wait(self, count: int) -> None:
        """Waits until so many more requests are in progress."""
        for _ in range(count):
            assert self.arrived.acquire(timeout=PATIENCE)

    def end(self) -> None:
        """All requests of this round get their response."""
        with self._changed:
            self._round += 1
            self._changed.notify_all()


def refusal(seconds: int) -> Reply:
    return Reply(429, {"retry-after": str(seconds)}, b"over quota")


def test_items_that_find_no_room_in_the_queue_of_connections_do_not_fail(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    app = PushApp(socket=tmp_path / "app", backlog=1)
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([f"{number}" for number in range(20)])
    start_sidecar(valkey.url, push_socket=str(tmp_path / "app"), concurrency="8")
    eventually_sync(lambda: queue.stats()["claimed"] >= 8)
    with app:
        eventually_sync(lambda: queue.stats()["done"] == 20)
    assert queue.length(State.FAILED) == 0
    assert (queue.stats()["fails"], len(app.pushes)) == (0, 20)


def test_a_drain_gives_back_at_once_what_waits_for_a_connection(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar, tmp_path: Path
) -> None:
    app = PushApp(socket=tmp_path / "app", backlog=0)
    queue.enqueue_many(["a", "b", "c"])
    sidecar = start_sidecar(valkey.url, push_socket=str(tmp_path / "app"), concurrency="3")
    eventually_sync(lambda: queue.stats()["claimed"] >= 3)
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert sidecar.running.is_running
    with app:
        assert sidecar.running.wait() == 0
    assert app.texts == ["a"]
    assert [(item.payload, item.fail_count) for item in queue.peek(3)] == [(b"b", 0), (b"c", 0)]


def test_after_a_pause_fewer_requests_are_in_progress_and_more_again_later(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    rounds = Rounds(refusal(1), Reply())
    queue.enqueue_many([f"{number}" for number in range(12)])
    with PushApp(rounds) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), concurrency="4")
        rounds.wait(4)
        rounds.end()
        rounds.wait(2)
        assert not rounds.arrived.acquire(timeout=0.2)
        rounds.end()
        eventually_sync(lambda: queue.stats()["done"] == 12)
        eventually_sync(lambda: sidecar.metric(LIMIT) == 4)
    assert queue.stats()["claimed"] == 16


def test_no_item_is_claimed_that_may_not_be_sent(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    rounds = Rounds(refusal(1))

    def respond(pushed: Pushed) -> Reply:
        reply = rounds(pushed)
        return Reply(422) if reply.status == 200 and int(pushed.text) % 2 else reply

    queue.enqueue_many([f"{number}" for number in range(400)])
    with PushApp(respond) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), concurrency="32")
        rounds.wait(32)
        rounds.end()
        eventually_sync(lambda: queue.length(State.FAILED) == 200 and queue.stats()["done"] == 200)
        assert app.most == 32
        assert 16 < sidecar.metric(LIMIT) < 32
    assert (queue.stats()["claimed"], queue.stats()["unclaimed"]) == (432, 0)


def test_items_of_refused_batches_are_sent_alone_within_the_limit(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    rounds = Rounds(refusal(1), Reply())
    ids = [f"item-{number}" for number in range(6)]
    for item in ids:
        queue.enqueue(item, id=item)
    batched = {"push_mode": "batched", "push_batch_size": "3", "concurrency": "6"}
    with PushApp(rounds) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), **batched)
        rounds.wait(2)
        rounds.end()
        rounds.wait(1)
        assert sidecar.metric(LIMIT) == 1
        assert not rounds.arrived.acquire(timeout=0.2)
        rounds.end()
        eventually_sync(lambda: queue.stats()["done"] == 6)
        assert sorted(app.events()[-6:]) == [[item] for item in ids]
    assert (queue.stats()["fails"], queue.length(State.FAILED)) == (0, 0)
    assert queue.stats()["unclaimed"] <= 2  # the rest of what was claimed as one batch


def test_an_app_that_is_silent_gets_one_request_at_a_time_until_it_responds(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    rounds = Rounds(Reply())
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([f"{number}" for number in range(30)])
    settings = {"push_timeout": "2s", "concurrency": "4"}
    with PushApp(rounds) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), **settings)
        eventually_sync(lambda: sidecar.metric(TIMEOUTS) >= 5)
        sent = queue.stats()["claimed"]
        assert sent <= sidecar.metric(TIMEOUTS) + 1
        assert sidecar.metric(LIMIT) == 1
        rounds.end()
        eventually_sync(lambda: not queue.length(State.MAIN) and not queue.length(State.BUSY))
        assert sidecar.metric(LIMIT) == 4
    assert sidecar.log_text.count("event=app_silent") == 1
    assert queue.stats()["done"] > 0


def test_an_app_that_hangs_with_its_probe_gets_nothing_more(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    rounds = Rounds(Reply())
    hangs = threading.Event()

    def respond(pushed: Pushed) -> Reply:
        if pushed.method == "POST":
            hangs.set()
        return rounds(pushed) if hangs.is_set() else Reply()

    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([f"{number}" for number in range(10)])
    settings = {"push_timeout": "5s", "push_probe_path": "/up", "concurrency": "2"}
    with PushApp(respond) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), **settings)
        eventually_sync(lambda: queue.length(State.FAILED) == 2)
        assert sidecar.metric("claimq_sidecar_app_ready") == 0
        assert (queue.length(State.BUSY), queue.length(State.MAIN)) == (0, 8)
        rounds.end()
        eventually_sync(lambda: queue.stats()["done"] == 8)
    assert [one.item.last_error for one in queue.failed_items()] == ["the app did not respond within 5 s"] * 2


class Deadly:
    """An app that an item named "killer" ends each time, with all that is in progress. Others take a moment."""

    def __init__(self) -> None:
        self._deaths = 0
        self._changed = threading.Condition()

    def __call__(self, pushed: Pushed) -> Reply:
        with self._changed:
            if pushed.text == "killer":
                self._changed.wait(0.1)  # others come in the meantime
                self._deaths += 1
                self._changed.notify_all()
                return Reply(0)
            before = self._deaths
            died = self._changed.wait_for(lambda: self._deaths > before, 0.3)
            return Reply(0 if died else 200)


def test_an_item_that_ends_the_app_each_time_takes_no_others_to_failed(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    queue.set_policy(Policy(requeue_limit=3))
    queue.enqueue_many(["a", "b", "c", "killer"])
    with PushApp(Deadly()) as app:
        start_sidecar(valkey.url, push_port=str(app.port), concurrency="4")
        eventually_sync(lambda: sum(queue.lengths().values()) == queue.length(State.FAILED) > 0)
    (failed,) = queue.items(State.FAILED)
    assert failed.item.payload == b"killer"
    assert queue.stats()["done"] == 3


def test_pushes_go_on_when_an_app_fails_an_item_whose_claim_was_lost(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    arrived, may_respond = threading.Event(), threading.Event()

    def respond(pushed: Pushed) -> Reply:
        if pushed.text == "slow":
            arrived.set()
            assert may_respond.wait(PATIENCE)
            return Reply(500)
        return Reply()

    queue.set_policy(Policy(busy_expiry=3.0))
    queue.enqueue("slow")
    with PushApp(respond) as app:
        sidecar = start_sidecar(valkey.url, push_port=str(app.port), concurrency="1")
        assert arrived.wait(PATIENCE)
        valkey.call("FLUSHALL")
        eventually_sync(lambda: "event=claims_lost" in sidecar.log_text)
        may_respond.set()
        eventually_sync(lambda: app.texts == ["slow"])
        queue.enqueue("next")
        eventually_sync(lambda: app.texts == ["slow", "next"])
