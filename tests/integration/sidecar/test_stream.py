"""Streams: one connection delivers items as they arrive, a window of them; verdicts go over others."""

import signal
from typing import Any

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from testkit.plugin import ServerFactory
from testkit.servers.server import DURABLE, Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, is_renewed

LARGE = 500_000


def texts(items: list[Any]) -> list[str]:
    return [item["text"] for item in items]


def end(sidecar: Sidecar, *items: Any) -> list[str]:
    """Done with these, in one batch of verdicts."""
    reply = sidecar.post("/v1/verdicts", done=[{"token": item["token"]} for item in items])
    return [one["outcome"] for one in reply["outcomes"]]


def in_flight(sidecar: Sidecar) -> int:
    count: int = sidecar.info["in_flight"]
    return count


def test_items_arrive_in_order_and_a_verdict_makes_room_for_the_next(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(list("abcde"))
    stream = sidecar.open_stream(window=2)
    assert (stream.first["window"], stream.first["draining"]) == (2, False)
    a, b = stream.items(2)
    assert queue.lengths()[State.BUSY] == 2
    assert end(sidecar, a) == ["done"]
    (c,) = stream.items(1)
    assert end(sidecar, b, c) == ["done", "done"]
    rest = stream.items(2)
    assert texts([a, b, c, *rest]) == list("abcde")
    end(sidecar, *rest)
    queue.enqueue("f")
    assert texts(stream.items(1)) == ["f"]


def test_a_window_is_at_most_the_concurrency_and_as_large_by_default(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="3")
    queue.enqueue_many(list("abcde"))
    assert sidecar.open_stream(window=7).first["window"] == 3
    stream = sidecar.open_stream()
    assert stream.first["window"] == 3
    eventually_sync(lambda: in_flight(sidecar) == 3)
    assert queue.lengths()[State.BUSY] == 3


def test_another_claim_gets_the_slot_that_it_has_waited_for_longest(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="1")
    queue.enqueue_many(list("abc"))
    one, other = sidecar.open_stream(), sidecar.open_stream()
    (a,) = one.items(1)
    end(sidecar, a)
    (b,) = other.items(1)
    end(sidecar, b)
    assert texts([a, b, *one.items(1)]) == list("abc")


def test_a_window_of_0_ends_the_delivery_and_lists_what_can_go_back(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(list("abcd"))
    stream = sidecar.open_stream(window=2)
    a, _ = stream.items(2)
    end(sidecar, a)
    eventually_sync(lambda: in_flight(sidecar) == 2)  # this side has not read the line with c
    reply = sidecar.post("/v1/window", session=stream.id, window=0)
    assert (reply["window"], len(reply["tokens"])) == (0, 2)
    assert sidecar.outcomes("unclaim", *reply["tokens"]) == ["unclaimed"] * 2
    assert [(item.text, item.crash_count) for item in queue.peek(9)] == [("b", 0), ("c", 0), ("d", 0)]
    sidecar.post("/v1/window", session=stream.id, window=3)
    assert texts(stream.items(4)) == ["c", "b", "c", "d"]


def waiting_clients(valkey: Server) -> list[bytes]:
    """The ids of connections that wait on the server. Each claim that is cancelled closes its own."""
    reply = valkey.call("CLIENT", "LIST")
    assert isinstance(reply, bytes)
    return [line.split()[0] for line in reply.splitlines() if b" flags=b" in line]


def test_a_smaller_window_ends_a_claim_that_waits(
    sidecar: Sidecar, queue: BlockingQueue, valkey: Server
) -> None:
    stream = sidecar.open_stream(window=5)
    before = eventually_sync(lambda: waiting_clients(valkey))
    sidecar.post("/v1/window", session=stream.id, window=1)
    eventually_sync(lambda: waiting_clients(valkey) not in ([], before), why="the next claim waits")
    queue.enqueue_many(list("ab"))
    assert texts(stream.items(1)) == ["a"]
    assert [claim["payload_base64"] for claim in sidecar.claim(5)] == ["Yg=="]


def test_the_window_of_a_session_without_items_is_refused(sidecar: Sidecar) -> None:
    session = sidecar.open_session()
    answer = sidecar.ask("POST", "/v1/window", {"session": session.id, "window": 1})
    assert (answer.status, answer.json["type"]) == (400, "urn:claimq:problem:invalid-field")
    assert sidecar.ask("POST", "/v1/window", {"session": "gone", "window": 1}).status == 409


def test_what_was_sent_counts_as_a_crash_when_the_app_dies_and_the_rest_does_not(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue("small")
    stream = sidecar.open_stream(window=2)
    assert texts(stream.items(1)) == ["small"]
    queue.enqueue("x" * LARGE)
    eventually_sync(lambda: in_flight(sidecar) == 2)  # the line does not fit into the socket
    stream.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert [(item.text[:5], item.crash_count) for item in queue.peek(2)] == [("xxxxx", 0), ("small", 1)]


def unread_lines(sidecar: Sidecar, queue: BlockingQueue) -> Any:
    """A stream with a line that its client has not read, and the item of the next one claimed."""
    queue.enqueue("x" * LARGE)
    stream = sidecar.open_stream(window=3)
    eventually_sync(lambda: in_flight(sidecar) == 1)  # the line does not fit into the socket
    queue.enqueue("next")
    eventually_sync(lambda: in_flight(sidecar) == 2)
    return stream


def test_items_claimed_behind_an_unread_line_go_back_uncounted_with_it(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    unread_lines(sidecar, queue).close()
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    assert [(item.text[:4], item.crash_count) for item in queue.peek(2)] == [("xxxx", 0), ("next", 0)]


def test_a_drain_returns_what_was_claimed_after_an_unread_line(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    stream = unread_lines(sidecar, queue)
    sidecar.running.send(signal.SIGTERM)
    eventually_sync(lambda: queue.length(State.MAIN) == 1, why="the drain does not wait for it")
    assert [(item.text, item.crash_count) for item in queue.peek(1)] == [("next", 0)]
    (large,) = stream.items(1)
    assert stream.line() == {"draining": True}
    assert end(sidecar, large) == ["done"]
    assert sidecar.running.wait() == 0


def test_a_window_of_0_returns_what_was_claimed_after_an_unread_line(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    stream = unread_lines(sidecar, queue)
    (large,) = sidecar.post("/v1/window", session=stream.id, window=0)["tokens"]
    eventually_sync(lambda: queue.length(State.MAIN) == 1)
    assert [item["token"] for item in stream.items(1)] == [large]
    sidecar.post("/v1/window", session=stream.id, window=3)
    assert texts(stream.items(1)) == ["next"]


def test_a_client_that_does_not_read_gets_one_line_and_holds_up_no_other(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    queue.enqueue_many(["x" * LARGE] * 60)
    end(sidecar, *sidecar.claim(1))  # the size of the payloads is known from now on
    slow = [sidecar.open_stream(window=100) for _ in range(2)]
    eventually_sync(lambda: in_flight(sidecar) >= 2)
    other = sidecar.open_stream(window=1)
    (item,) = other.items(1)
    assert end(sidecar, item) == ["done"]
    assert len(sidecar.claim(1)) == 1
    # A line grows by calls of 4 items (2 MiB) until it has 4 MiB: 12 at most.
    assert in_flight(sidecar) <= 2 * 12 + 2
    assert sidecar.rss_mb < 100
    for stream in slow:
        stream.close()
    eventually_sync(lambda: sidecar.info["sessions"] == 1)
    eventually_sync(lambda: in_flight(sidecar) <= 2)
    assert {item.crash_count for item in queue.peek(20)} == {0}


def test_unread_streams_leave_memory_for_claims(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, memory="96Mi")
    queue.enqueue_many(["x" * LARGE] * 30)
    for _ in range(12):
        sidecar.open_stream(window=1)
    eventually_sync(lambda: in_flight(sidecar) >= 4)
    claims = eventually_sync(lambda: sidecar.claim(1))
    assert end(sidecar, *claims) == ["done"]
    assert in_flight(sidecar) < 12, "unread lines have a budget"


def test_a_drain_ends_the_delivery_and_is_announced(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    stream = sidecar.open_stream(window=1)
    (a,) = stream.items(1)
    sidecar.running.send(signal.SIGTERM)
    assert stream.line() == {"draining": True}
    assert end(sidecar, a) == ["done"]
    assert stream.line() is None
    assert sidecar.running.wait() == 0
    assert [(item.text, item.interrupted_count) for item in queue.peek(2)] == [("b", 0)]


def test_what_a_drain_leaves_goes_back_to_the_head_uncounted(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, drain_timeout="0s")
    queue.enqueue_many(["a", "b", "c"])
    stream = sidecar.open_stream(window=2)
    stream.items(2)
    sidecar.running.send(signal.SIGTERM)
    assert stream.line() == {"draining": True}
    assert sidecar.running.wait() == 0
    assert [(item.text, item.crash_count) for item in queue.peek(3)] == [("a", 0), ("b", 0), ("c", 0)]


def test_the_delivery_continues_when_only_the_app_was_restarted(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    stream = sidecar.open_stream()
    assert sidecar.post("/v1/prestop")["in_flight"] == 0
    assert stream.line() == {"draining": True}
    queue.enqueue("a")
    assert texts(stream.items(1)) == ["a"]


def test_a_stream_takes_over_the_items_of_a_killed_sidecar(sidecar: Sidecar, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b", "c", "d"])
    a, b = sidecar.open_stream(window=2).items(2)
    sidecar.kill9()
    sidecar.start()
    tokens = [a["token"], b["token"], "w/999.aaaaaaaa"]
    stream = sidecar.open_stream(window=2, tokens=tokens)
    assert stream.first["lost"] == ["w/999.aaaaaaaa"]
    assert in_flight(sidecar) == 2
    assert end(sidecar, b) == ["done"]
    assert texts(stream.items(1)) == ["c"]
    stream.close()
    eventually_sync(lambda: queue.length(State.MAIN) == 3)
    assert {item.text: item.crash_count for item in queue.peek(3)} == {"a": 1, "c": 1, "d": 0}


def test_a_stream_stays_open_while_the_store_is_away(
    start_server: ServerFactory, start_sidecar: StartSidecar
) -> None:
    store = start_server(options=DURABLE)
    sidecar = start_sidecar(store.url)
    with claimq.blocking.connect(store.url) as server:
        queue = server.queue("q")
        queue.enqueue("a")
        stream = sidecar.open_stream(window=2)
        (a,) = stream.items(1)
        store.kill9()
        failed = 'claimq_sidecar_store_errors_total{kind="unavailable"}'
        eventually_sync(lambda: sidecar.metric(failed) >= 2, why="its claim has failed")
        store.start()
        queue.enqueue_many(["b", "c"])
        assert texts(stream.items(1)) == ["b"]
        assert end(sidecar, a) == ["done"]
        assert texts(stream.items(1)) == ["c"]


def test_an_item_of_a_stream_keeps_its_lease(sidecar: Sidecar, queue: BlockingQueue, brief: Policy) -> None:
    queue.enqueue("a")
    (item,) = sidecar.open_stream().items(1)
    eventually_sync(lambda: is_renewed(queue, item["token"], item["lease_until"]))
    assert end(sidecar, item) == ["done"]
