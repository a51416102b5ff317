"""The sidecar dies by SIGKILL in the middle of a push whose response closes the queue: while the app works, before its
call reaches the server, and once the server has carried it out."""

import threading
from collections.abc import Iterator

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.faults.links import Request, is_script
from testkit.faults.proxy import FaultProxy
from testkit.queues.clock import MOVE
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync
from testkit.workers.push_app import PushApp, Pushed, Reply
from testkit.workers.sidecars import Sidecar

WORKER = "the-sidecar"


def closes(request: Request) -> bool:
    """Whether a call gives an item back and closes the queue."""
    return is_script(request) and b"postpone queue" in request.words


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with open_blocking_queue(valkey.url) as queue:
        yield queue


@pytest.mark.parametrize("dies", ["at the app", "before its call", "after its call"])
def test_a_sidecar_that_dies_in_a_closing_loses_no_item_and_counts_it_once(
    valkey: Server, queue: BlockingQueue, dies: str
) -> None:
    is_killed = threading.Event()

    def kill(_: Request | None = None) -> bool:
        sidecar.kill9()
        is_killed.set()
        return True

    def respond(pushed: Pushed) -> Reply:
        if dies == "at the app" and not is_killed.is_set():
            kill()
        if "ce-postponedcount" in pushed.headers:
            return Reply()
        return Reply(429, {"retry-after": "3000"}, b"quota")

    queue.set_policy(retrying_at_once(busy_expiry=600))
    with PushApp(respond) as app, FaultProxy(valkey.unix_path) as proxy:
        sidecar = Sidecar(proxy.url, worker=WORKER, push_port=str(app.port))
        if dies == "before its call":
            proxy.cut_request(matching=lambda request: closes(request) and kill(request))
        elif dies == "after its call":
            proxy.drop_reply(matching=closes, cut=False)
        with sidecar:
            queue.enqueue("a")
            if dies == "after its call":
                eventually_sync(lambda: queue.snapshot().paused, why="the app closes the queue")
                kill()
            assert is_killed.wait(PATIENCE)
            is_closed = dies == "after its call"
            assert queue.snapshot().paused is is_closed
            assert queue.lengths()[State.DELAYED if is_closed else State.BUSY] == 1
            assert queue.release_worker(WORKER).total == (0 if is_closed else 1)
            sidecar.start()
            eventually_sync(lambda: queue.snapshot().paused, why="the app closes the queue")
            assert queue.lengths() == {State.MAIN: 0, State.BUSY: 0, State.DELAYED: 1, State.FAILED: 0}
            valkey.call("EVAL", MOVE, 1, "cq:{q}:stats", 3_600_000, "clock_offset", "seen_at")
            eventually_sync(lambda: queue.stats()["done"] == 1, why="the queue opens again")
    crashes = 0 if is_closed else 1
    last = app.pushes[-1].headers
    assert (last["ce-postponedcount"], last.get("ce-crashcount", "0")) == ("1", f"{crashes}")
    assert [push.text for push in app.pushes] == ["a"] * (2 + crashes)
    assert not any(queue.lengths().values())
    stats = queue.stats()
    counted = {name: stats[name] for name in ("enqueued", "postponed", "crashes", "fails", "failed", "done")}
    assert counted == {
        "enqueued": 1, "postponed": 1, "crashes": crashes, "fails": 0, "failed": 0, "done": 1
    }  # fmt: skip
