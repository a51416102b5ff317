"""item.later and claimq.Later, through a sidecar."""

from datetime import timedelta

import pytest

from claimq import Later
from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from claimq.worker import Worker


def test_a_postponed_item_counts_no_attempt(worker: Worker, queue: BlockingQueue) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue_many(["a", "b", "c"])
    a, b, c = worker.claim(3, wait=0)
    assert (a.postponed_count, a.later(60).delay) == (0, 60.0)
    assert b.later(timedelta(minutes=2)).delay == 120.0
    with c:
        raise Later(0)
    assert c.outcome is not None
    assert c.outcome.verdict == "requeued"
    (again,) = worker.claim(wait=0)
    assert (again.text, again.postponed_count, again.requeue_count, again.fail_count) == ("c", 1, 0, 0)
    with pytest.raises(TypeError, match=r"^delay is None; give a number of seconds"):
        again.later(None)  # type: ignore[arg-type]  # what it refuses
