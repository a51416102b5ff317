"""How soon the first item of an empty queue gets workers asked for, and how soon one of them has claimed it."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field

from claimq.model import State
from claimq_bench.meter import must
from claimq_bench.on_cluster.deployment_watch import Watch
from claimq_bench.on_cluster.place import QUEUES
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import Release

WORKER = """
import time, claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            time.sleep(1.0)  # so long it can be seen in progress
            item.done()
"""
ITS_QUEUES = 4
LONGEST = 120.0


@dataclass
class Found:
    """Seconds, one for each item."""

    to_scale: list[float] = field(default_factory=list[float])
    to_claim: list[float] = field(default_factory=list[float])
    to_zero: list[float] = field(default_factory=list[float])


def measure(release: Release, samples: int) -> Found:
    """An item at a time, to one of four queues in turn that has had no workers for a while.

    WrongResult unless each item is done once.
    """
    found, done_last = Found(), dict[str, float]()
    with ExitStack() as stack:
        watch = stack.enter_context(Watch(release.cluster))
        queues = [stack.enter_context(queue_on(release, QUEUES, f"awake-{at}")) for at in range(ITS_QUEUES)]
        for queue in queues:
            queue.apply(program=WORKER, scaling={"minReplicas": 0, "maxReplicas": 1, "idleAfter": "1s"})
        for at in range(samples):
            queue = queues[at % ITS_QUEUES]
            asleep = watch.when(queue.name, is_awake=False)
            if queue.name in done_last:
                found.to_zero.append(asleep - done_last[queue.name])
            _sleep_well(queue)
            _one(queue, watch, found)
            done_last[queue.name] = time.monotonic()
        for queue in queues:
            watch.when(queue.name, is_awake=False)
            accounted_for(queue)
            queue.cluster.kubectl("delete", "rq", queue.name, f"--namespace={QUEUES}")
    return found


def _sleep_well(queue: QueueOnCluster) -> None:
    """Waits until the queue has no pods and its status says so: then the operator waits for a first item."""
    queue.wait("the queue has no pods", lambda: not queue.pods(), timeout=LONGEST, every=0.5)
    queue.wait(
        "its status says so",
        lambda: queue.get().get("status", {}).get("workers", {}).get("summary") == "0/0",
        timeout=LONGEST,
        every=0.5,
    )


def _one(queue: QueueOnCluster, watch: Watch, found: Found) -> None:
    done = queue.counters()["done"]
    queue.enqueue(1)
    enqueued = time.monotonic()
    found.to_scale.append(max(watch.when(queue.name, is_awake=True) - enqueued, 0.0))

    def in_flight() -> bool:
        for located in queue.items.items(State.BUSY):
            must(located.claimed_at is not None, "an item is busy without the time of its claim")
            found.to_claim.append((located.claimed_at or 0.0) - located.item.enqueued_at)
            return True
        return False

    queue.wait("the item is claimed", in_flight, timeout=LONGEST, every=0.1)
    queue.wait("it is done", lambda: queue.counters()["done"] > done, timeout=LONGEST, every=0.1)


def accounted_for(queue: QueueOnCluster) -> None:
    """WrongResult unless each item that was enqueued is done, and none is left, failed or done twice."""
    seen = queue.counters()
    left = {state.value: seen[f"in {state.value}"] for state in State if seen[f"in {state.value}"]}
    must(not left, f"{queue.name}: items are left over: {left}")
    done, wanted = seen["done"], len(queue.known)
    must(done == wanted, f"{queue.name}: {wanted} items were enqueued, and {done} are done")
