"""What every client of the sidecar's socket does with items and verdicts, in each language."""

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from claimq.policy import Policy
from testkit.faults.waiting_pipe import Pipe
from testkit.queues.looking import is_empty
from testkit.waiting import eventually_sync
from testkit.workers.client_drivers import Start, begin, does

UNUSUAL = (
    b"\x00\xff",
    b"",
    '{"a": 1.50, "ü": "\u2028😀"}'.encode(),
    b"two\nlines\r\n",
    b"\xed\xa0\x80",
    b"x" * 300_000,
)
pytestmark = pytest.mark.usefixtures("retries_at_once")


def test_items_arrive_byte_for_byte_and_are_done(start: Start, queue: BlockingQueue) -> None:
    queue.enqueue_many(
        [*UNUSUAL, NewItem("all", client="ann", priority="high", cost=7, headers={"b": '"},'})]
    )
    program = start(window=1)
    eventually_sync(lambda: is_empty(queue))
    assert sorted(program.payloads) == sorted([*UNUSUAL, b"all"])
    (event,) = [one for one in program.all_of("begin") if one["client"]]
    assert (event["client"], event["priority"], event["headers"]) == ("ann", "high", {"b": '"},'})
    assert (event["cost"], program.all_of("begin")[0]["cost"]) == (
        7,
        1 if program.payloads[0] != b"all" else 7,
    )


@pytest.mark.parametrize(
    ("what", "verdict", "state"),
    [
        ("done", "done", None),
        ("fail-permanent", "failed", State.FAILED),
        ("fail-delay", "delayed", State.DELAYED),
        ("requeue-delay", "delayed", State.DELAYED),
        ("later", "delayed", State.DELAYED),
    ],
)
def test_a_verdict_has_its_effect(
    start: Start, queue: BlockingQueue, what: str, verdict: str, state: State | None
) -> None:
    queue.enqueue_many([does(what)])
    (event,) = start().until("verdict")
    assert (event["is"], event["delay"]) == (verdict, 60 if verdict == "delayed" else None)
    assert queue.lengths() == {**dict.fromkeys(State, 0), **({state: 1} if state else {})}


@pytest.mark.parametrize(
    ("what", "verdict", "counts"),
    [
        ("fail", "requeued", (1, 1, 0)),
        ("requeue", "requeued", (1, 0, 0)),
        ("unclaim", "unclaimed", (0, 0, 1)),
    ],
)
def test_an_item_that_goes_back_is_counted_as_it_should(
    start: Start, queue: BlockingQueue, what: str, verdict: str, counts: tuple[int, int, int], pipe: Pipe
) -> None:
    program = begin(start, queue, pipe, what, window=1)
    queue.pause()
    pipe.close()
    (event,) = program.until("verdict")
    assert event["is"] == verdict
    (item,) = queue.peek(9)
    assert (item.requeue_count, item.fail_count, item.interrupted_count) == counts


@pytest.mark.parametrize("what", ["later", "raise-later"])
def test_a_postponed_item_comes_later_and_counts_no_attempt(
    start: Start, queue: BlockingQueue, what: str
) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([does(what)])
    queue.later(queue.claim(), 0)
    (event,) = start().until("begin")
    assert event["postponed"] == 1
    (item,) = eventually_sync(lambda: [one.item for one in queue.items(State.DELAYED)])
    assert (item.postponed_count, item.requeue_count, item.fail_count, item.last_error) == (2, 0, 0, None)


def test_work_that_is_postponed_can_close_its_queue(start: Start, queue: BlockingQueue) -> None:
    queue.enqueue_many([does("raise-close"), does("nothing")])
    start(window=1).until("begin")
    eventually_sync(lambda: queue.snapshot().paused)
    pause = queue.snapshot().pause
    assert pause is not None
    assert (pause.by_app, (pause.until or 0) - (pause.at or 0)) == (True, 60)
    eventually_sync(lambda: queue.length(State.MAIN) == 1 and queue.length(State.BUSY) == 0)
    assert queue.stats().get("done", 0) == 0


def test_work_that_ends_is_done_and_an_error_fails_it(start: Start, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([does("nothing"), does("raise"), does("raise-fail"), does("raise-requeue")])
    queue.enqueue_many([does("raise-fail-delay", max_requeues=1)])
    start()
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 1, 3])
    errors = {failed.item.id: failed.item.last_error for failed in queue.failed_items()}
    assert errors.keys() == {"raise", "raise-fail", "raise-requeue"}
    assert (errors["raise"] or "").endswith("cannot")
    assert errors["raise-fail"] == "why"
    assert [one.item.last_error for one in queue.items(State.DELAYED)] == ["why"]


def test_an_error_that_says_nothing_fails_its_item(start: Start, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([does("raise-nothing")])
    start()
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 1])
    assert queue.failed_items()[0].item.last_error


def test_a_payload_that_cannot_be_read_fails_its_item(start: Start, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([does("json", b"\xff"), does("text", b"\xff"), does("done")])
    start(window=1)
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 2])
    errors = [failed.item.last_error or "" for failed in queue.failed_items()]
    assert all("the payload of item" in error for error in errors)


def test_items_that_follow_are_added_with_the_verdict(start: Start, queue: BlockingQueue) -> None:
    queue.enqueue_many([does("follow")])
    program = start(window=1)
    program.until("begin", 2)
    assert program.payloads == [b"a", b"next"]
    (own,) = queue.items(State.DELAYED)
    assert (own.item.id, own.item.payload) == ("own", b'{"n":1}')


def test_a_refused_follow_up_fails_its_item_alone(start: Start, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many([*(does(f"nothing-{number}") for number in range(20)), does("follow-badly")])
    start(window=50)
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 1])
    assert "invalid-field" in (queue.failed_items()[0].item.last_error or "")


def test_a_second_verdict_on_an_item_changes_nothing(start: Start, queue: BlockingQueue) -> None:
    queue.enqueue_many([does("done-twice")])
    (event,) = start().until("verdict")
    assert event["is"] in ("already_done", "lost")
    assert queue.stats()["done"] == 1


def test_a_loop_that_forgets_a_verdict_fails_its_item_and_ends(start: Start, queue: BlockingQueue) -> None:
    queue.enqueue_many([does("forget"), NewItem("b", id="rest")])
    program = start(window=2, sequential=True)
    (event,) = program.until("error")
    assert "before item forget had a verdict" in event["message"]
    assert program.process.wait() == 1
    eventually_sync(lambda: queue.length(State.MAIN) == 2)
    counts = {item.id: (item.fail_count, item.crash_count, item.last_error or "") for item in queue.peek(9)}
    assert counts["rest"] == (0, 0, "")
    assert counts["forget"][:2] == (1, 0)
    assert "went on before this item had a verdict" in counts["forget"][2]


def test_a_producer_gets_ids_lengths_duplicates_and_refusals(start: Start, queue: BlockingQueue) -> None:
    program = start(produce=True)
    assert program.process.wait() == 0
    first, second, *errors = program.events[:5]
    assert first == {"ids": 4, "length": 3, "last": "own"}
    assert second == {"id": "own", "duplicate": True}
    assert [item.payload for item in queue.peek(9)] == [b"\xff", b"t", b'{"a":1}']
    (own,) = queue.items(State.DELAYED)
    assert (own.item.payload, own.item.client, own.item.headers) == (b"[1]", "ann", {"a": "1"})
    assert "into a" in errors[0]["message"]  # array, list: for a single number
    assert [event["error"] for event in errors[1:]] == ["Refused", "Refused"]
    assert "maxPayload" in errors[2]["message"] or "too large" in errors[2]["message"]
