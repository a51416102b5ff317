"""Headers of items through the sidecar and its client."""

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.worker import NewItem
from testkit.sidecars import Sidecar


def test_headers_go_with_the_items_of_both_sides(sidecar: Sidecar, queue: BlockingQueue) -> None:
    with claimq.worker.connect(sidecar.socket) as worker:
        worker.enqueue("a", headers={"traceparent": "00-1", "b": ""})
        worker.enqueue_many([NewItem("c", headers={"d": '"'}), "e"])
        assert [item.headers for item in queue.peek(9)] == [{"traceparent": "00-1", "b": ""}, {"d": '"'}, {}]
        first, second, third = worker.claim(9, wait=0)
        assert (first.headers, second.headers, third.headers) == (
            {"traceparent": "00-1", "b": ""},
            {"d": '"'},
            {},
        )
        first.done(enqueue=[NewItem("f", headers={"g": "1"})])
        assert [item.headers for item in queue.peek(9)] == [{"g": "1"}]
        with pytest.raises(ValueError, match="lower-case"):
            worker.enqueue("a", headers={"A": "1"})
