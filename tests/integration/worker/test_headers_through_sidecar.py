"""Headers of items through the sidecar and its client."""

from datetime import timedelta

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.worker import NewItem
from testkit.workers.sidecars import Sidecar


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
        worker.enqueue_many([NewItem("l", deadline=timedelta(hours=1), max_requeues=2, priority="low")])
        worker.enqueue("m", deadline=timedelta(hours=1), max_requeues=2, priority="low")
        for limited in worker.claim(9, wait=0)[1:]:
            assert (limited.max_requeues, limited.priority) == (2, "low")
            assert limited.deadline is not None
            assert 0 < limited.deadline - limited.claimed_at <= 3600
            limited.done()
        worker.enqueue("n", key="n")
        worker.enqueue_many([NewItem("o", key="n")])
        assert [(item.text, item.key) for item in worker.claim(9, wait=0)] == [("n", "n")]
        with pytest.raises(ValueError, match="key is 'a b'"):
            worker.enqueue("a", key="a b")
        with pytest.raises(TypeError, match=r"deadline is 1\.0; give a datetime"):
            worker.enqueue_many([NewItem("a", deadline=1.0)])
        with pytest.raises(ValueError, match="give one of: high, normal, low"):
            worker.enqueue("a", priority="urgent")
        with pytest.raises(ValueError, match="lower-case"):
            worker.enqueue("a", headers={"A": "1"})
