"""Arguments of the worker client."""

from datetime import timedelta
from typing import Any

import pytest

import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.workers.sidecars import Sidecar

odd: Any = "5s"


def test_durations_may_be_timedeltas_and_one_item_needs_no_list(
    sidecar: Sidecar, queue: BlockingQueue
) -> None:
    minute = timedelta(minutes=1)
    queue.enqueue_many(["a", "b", "c"])
    with claimq.worker.connect(sidecar.socket, within=minute, patience=minute) as worker:
        a, b = worker.claim(2, wait=minute)
        assert a.requeue(delay=minute).delay == 60.0
        assert worker.requeue(b, delay=minute)[0].delay == 60.0
        c = next(worker.items(wait=minute))
        assert worker.done(c.token)[0].verdict == "done"
        with pytest.raises(TypeError, match=r"^delay is '5s'; give a number of seconds"):
            worker.requeue(a, delay=odd)
        with pytest.raises(TypeError, match=r"^wait is '5s'; give a number of seconds"):
            worker.claim(wait=odd)
        for payload in ("one item", {"one": "item"}):
            with pytest.raises(TypeError, match=r"^items is (str|dict); give a list"):
                worker.enqueue_many(payload)
    with pytest.raises(TypeError, match=r"^within is '5s'"):
        claimq.worker.connect(sidecar.socket, within=odd)
    assert queue.lengths() == {State.MAIN: 0, State.BUSY: 0, State.DELAYED: 2, State.FAILED: 0}
