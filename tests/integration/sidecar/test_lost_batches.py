"""A batch of verdicts of every kind whose request or response is lost, and which is repeated: each item ends once."""

import json
from contextlib import ExitStack, closing
from typing import Any

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from testkit.faults.links import Request, is_script
from testkit.faults.proxy import FaultProxy
from testkit.queues.retries import retrying_at_once
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar, StartSidecar, UnixConnection

OUTCOMES = {"a": "done", "b": "done", "c": "failed", "d": "requeued", "e": "requeued", "f": "unclaimed"}
"""Of the batch, by the ids of the items."""
ENDS = {
    "c": (State.FAILED, 1, 0),
    "d": (State.MAIN, 1, 1),
    "e": (State.MAIN, 0, 1),
    "f": (State.MAIN, 0, 0),
    "after-b": (State.MAIN, 0, 0),
}
"""Where the items are that are not done, by id; how often each has failed and was requeued."""
CALLS = range(1, 6)
"""The calls to the server that a batch makes: one for all that are done, and one for each other verdict."""
Batch = dict[str, list[Any]]


@pytest.fixture
def sidecar(proxy: FaultProxy, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    queue.set_policy(retrying_at_once(busy_expiry=3600.0))  # no lease ends in a test
    return start_sidecar(proxy.url)


@pytest.fixture
def batch(sidecar: Sidecar, queue: BlockingQueue) -> Batch:
    """The verdicts on six claims."""
    queue.enqueue_many([NewItem(name, id=name) for name in OUTCOMES])
    a, b, c, d, e, f = (claim["token"] for claim in sidecar.claim(6))
    follower = {"text": "after b", "id": "after-b"}
    return {
        "done": [{"token": a}, {"token": b, "enqueue": [follower]}],
        "fail": [{"token": c, "error": "c", "permanent": True}, {"token": d, "error": "d"}],
        "requeue": [{"token": e}],
        "unclaim": [{"token": f}],
    }


def is_verdict(request: Request) -> bool:
    return is_script(request) and any(word.startswith(b"w/") for word in request.words)


def ends(queue: BlockingQueue) -> dict[str, tuple[State, int, int]]:
    """All items of the queue by id. Each item is there once, and none has crashed."""
    found = [(state, one.item) for state in State for one in queue.items(state, 100)]
    assert len({item.id for _, item in found}) == len(found)
    assert {item.crash_count for _, item in found} <= {0}
    return {item.id: (state, item.fail_count, item.requeue_count) for state, item in found}


def outcomes(reply: Any) -> list[tuple[str, str | None]]:
    return [(one["outcome"], one.get("earlier")) for one in reply["outcomes"]]


def is_applied(queue: BlockingQueue) -> bool:
    return queue.length(State.BUSY) == 0


def assert_all_are_repeated(sidecar: Sidecar, queue: BlockingQueue, batch: Batch) -> None:
    """The same batch again reports what each verdict has done, and changes nothing."""
    expected = [("already_done", outcome) for outcome in OUTCOMES.values()]
    assert outcomes(sidecar.post("/v1/verdicts", **batch)) == expected
    assert (queue.stats()["done"], ends(queue)) == (2, ENDS)


def send(connection: UnixConnection, batch: Batch, part: float = 1.0) -> None:
    """Sends this part of the request."""
    raw = json.dumps(batch).encode()
    head = b"POST /v1/verdicts HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(raw)
    connection.connect()
    connection.send((head + raw)[: len(head) + int(part * len(raw))])


def test_a_batch_whose_request_is_cut_off_changes_nothing(
    sidecar: Sidecar, queue: BlockingQueue, batch: Batch
) -> None:
    with closing(UnixConnection(sidecar.socket)) as client:
        send(client, batch, part=0.9)
    assert queue.length(State.BUSY) == sidecar.info["in_flight"] == len(OUTCOMES)
    assert outcomes(sidecar.post("/v1/verdicts", **batch)) == [(one, None) for one in OUTCOMES.values()]
    assert_all_are_repeated(sidecar, queue, batch)


def test_a_batch_whose_response_is_lost_is_repeated(
    sidecar: Sidecar, queue: BlockingQueue, batch: Batch
) -> None:
    with closing(UnixConnection(sidecar.socket)) as client:
        send(client, batch)
        eventually_sync(lambda: is_applied(queue))
    assert_all_are_repeated(sidecar, queue, batch)


def test_a_batch_may_be_repeated_several_times_at_once_while_it_is_in_progress(
    sidecar: Sidecar, queue: BlockingQueue, proxy: FaultProxy, batch: Batch
) -> None:
    before = len(proxy.requests)
    proxy.black_hole("replies")
    with ExitStack() as clients:
        first, *others = (clients.enter_context(closing(UnixConnection(sidecar.socket))) for _ in range(4))
        send(first, batch)
        eventually_sync(lambda: any(map(is_verdict, proxy.requests[before:])))
        first.close()
        for client in others:
            client.request("POST", "/v1/verdicts", json.dumps(batch))
        assert sidecar.info["in_flight"] == len(OUTCOMES)  # which is asked after all of them
        proxy.heal()
        replies = [json.loads(client.getresponse().read()) for client in others]
    # Each waits for the verdicts of those before it, and applies what these have not applied.
    for reply in replies:
        assert [earlier or outcome for outcome, earlier in outcomes(reply)] == list(OUTCOMES.values())
    assert_all_are_repeated(sidecar, queue, batch)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_batch_is_applied_once_when_a_call_and_its_response_are_lost(
    sidecar: Sidecar, queue: BlockingQueue, proxy: FaultProxy, batch: Batch, call: int, lost: str
) -> None:
    cut = proxy.drop_reply if lost == "reply" else proxy.cut_request
    fault = cut(call, matching=is_verdict)
    with closing(UnixConnection(sidecar.socket)) as client:
        send(client, batch)
        eventually_sync(lambda: is_applied(queue))
    assert fault.hit is not None
    assert_all_are_repeated(sidecar, queue, batch)


@pytest.mark.parametrize("call", CALLS)
def test_a_batch_of_a_sidecar_that_is_killed_at_a_reply_is_completed_by_the_next(
    sidecar: Sidecar, queue: BlockingQueue, proxy: FaultProxy, batch: Batch, call: int
) -> None:
    fault = proxy.drop_reply(call, matching=is_verdict, cut=False)
    with closing(UnixConnection(sidecar.socket)) as client:
        send(client, batch)
        eventually_sync(lambda: fault.hit is not None)
        sidecar.kill9()
    sidecar.start()
    # Nothing remembers what the killed one has applied: that is lost now.
    repeated = outcomes(sidecar.post("/v1/verdicts", **batch))
    assert all(
        one in {(expected, None), ("lost", None)}
        for one, expected in zip(repeated, OUTCOMES.values(), strict=True)
    )
    assert (queue.stats()["done"], ends(queue)) == (2, ENDS)
