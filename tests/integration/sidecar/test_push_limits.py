"""Pushes to an app that cannot take all that it gets: it accepts no connections, refuses requests, or is silent."""

import signal
from collections.abc import Callable
from pathlib import Path

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.push_app import PushApp
from testkit.server import Server
from testkit.sidecars import Sidecar
from testkit.waiting import eventually_sync

StartSidecar = Callable[..., Sidecar]


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
