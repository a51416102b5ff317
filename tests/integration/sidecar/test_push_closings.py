"""Push delivery to an app that answers "not now": the queue is closed until then, for all sidecars."""

from functools import partial

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.queues.clock import MOVE
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.push_app import Reply, StartApp
from testkit.workers.sidecars import StartSidecar


@pytest.mark.parametrize("status", [429, 503])
def test_an_item_that_is_refused_six_times_waits_and_so_do_the_others(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar, status: int
) -> None:
    def an_hour_passes() -> None:
        valkey.call("EVAL", MOVE, 1, "cq:{q}:stats", 3_600_000, "clock_offset", "seen_at")

    def is_postponed(times: int) -> bool:
        return queue.stats()["postponed"] == times

    refused = iter([Reply(status, {"retry-after": "3600"}, b"quota")] * 6)
    app, other = start_app(lambda _: next(refused, Reply())), start_app()
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue("a")
    start_sidecar(valkey.url, push_port=str(app.port))
    for times in range(1, 7):
        if times > 1:
            an_hour_passes()
        eventually_sync(partial(is_postponed, times))
    queue.enqueue_many(["b", "c"])
    start_sidecar(valkey.url, push_port=str(other.port), worker="other")
    eventually_sync(lambda: any(one.worker == "other" for one in queue.workers()))
    assert queue.lengths() == {State.MAIN: 2, State.BUSY: 0, State.DELAYED: 1, State.FAILED: 0}
    assert (app.texts, other.texts) == (["a"] * 6, [])
    pause = queue.snapshot().pause
    assert pause is not None
    assert (pause.by, pause.reason) == ("w", f"the app responded with status {status}: quota")
    an_hour_passes()
    eventually_sync(lambda: queue.stats()["done"] == 3)
    assert not any(queue.lengths().values())
    assert sorted(app.texts[6:] + other.texts) == ["a", "b", "c"]


def test_who_resumes_the_queue_ends_the_wait_of_a_busy_app(
    valkey: Server, queue: BlockingQueue, start_app: StartApp, start_sidecar: StartSidecar
) -> None:
    refused = iter([Reply(429, {"retry-after": "3600"})])
    app = start_app(lambda _: next(refused, Reply()))
    queue.enqueue_many(["a", "b"])
    start_sidecar(valkey.url, push_port=str(app.port))
    eventually_sync(lambda: queue.snapshot().paused)
    queue.resume()
    eventually_sync(lambda: app.texts == ["a", "b"])
