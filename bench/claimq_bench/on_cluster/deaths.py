"""Measures the time from the death of a holder until its item is claimable again."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from claimq.model import Claim, State
from claimq_bench.meter import must, rss_mb, wait_until
from claimq_bench.on_cluster.containers import kill, pid_of
from claimq_bench.on_cluster.place import QUEUES
from claimq_bench.on_cluster.reaction import accounted_for
from testkit.on_cluster.queue_on_cluster import APP, SIDECAR, QueueOnCluster, queue_on
from testkit.on_cluster.release import Release

EXPIRY = 30.0
PODS = 2
WORKER = """
import time, claimq.worker

with claimq.worker.connect() as worker:
    for item in worker.items():
        with item:
            if not item.crash_count + item.interrupted_count + item.requeue_count:
                time.sleep(600)  # until this pod dies
            item.done()
"""
"""Holds an item until the pod dies; the next worker completes the item."""
KINDS: dict[str, tuple[str, ...]] = {
    "app": (APP,),
    "sidecar": (SIDECAR,),
    "pod": (APP, SIDECAR),
}
"""Containers that are killed with SIGKILL at the same instant."""
LONGEST = 180.0


@dataclass
class Found:
    """Seconds. ``killed``: by kind, one for each item. ``plain``: the time until a lease ended that was not renewed.

    ``idle_rss_mb``: of the sidecars that wait for the first item.
    """

    killed: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    deleted: list[float] = field(default_factory=list[float])
    plain: float = 0.0
    idle_rss_mb: list[float] = field(default_factory=list[float])


def measure(release: Release, samples: int, deletions: int) -> Found:
    """WrongResult if an item is lost, failed, done twice, or given to another worker while it was held."""
    found = Found()
    with queue_on(release, QUEUES, "plain") as plain, _workers(release, "deadly", PODS) as queue:
        claim = _abandoned_claim(plain)
        if release.cluster.is_own:
            settled(queue, PODS)
            sidecars = [pid_of(release.cluster, pod, SIDECAR) for pod in queue.pods().values()]
            found.idle_rss_mb = [rss_mb(pid) for pid in sidecars if pid is not None]
            for kind, containers in KINDS.items():
                found.killed[kind] = [_kill_one(queue, containers) for _ in range(samples)]
        settled(queue, PODS)
        found.deleted = [_delete_one(queue) for _ in range(deletions)]
        settled(queue, PODS)
        accounted_for(queue)
        found.plain = _after_the_lease(plain, claim)
    return found


@contextmanager
def _workers(release: Release, name: str, pods: int) -> Generator[QueueOnCluster]:
    with queue_on(release, QUEUES, name) as queue:
        queue.apply(
            program=WORKER,
            busyExpiry=f"{EXPIRY:.0f}s",
            scaling={"minReplicas": pods, "maxReplicas": pods},
            worker={"drainTimeout": "1s"},
        )
        yield queue
        queue.cluster.kubectl("delete", "rq", name, f"--namespace={QUEUES}")


def _kill_one(queue: QueueOnCluster, containers: tuple[str, ...]) -> float:
    pod, name = _hold(queue)
    pids = [pid_of(queue.cluster, pod, container) for container in containers]
    started = time.monotonic()
    kill(*(pid for pid in pids if pid is not None))
    took = _reclaimed(queue, name) - started
    _end(queue, pod["metadata"]["name"])
    return took


def _delete_one(queue: QueueOnCluster) -> float:
    """As `kubectl delete --grace-period=0 --force` does it."""
    pod, name = _hold(queue)
    where = f"/api/v1/namespaces/{QUEUES}/pods/{pod['metadata']['name']}"
    started = time.monotonic()
    queue.cluster.api("DELETE", where, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    took = _reclaimed(queue, name) - started
    finished(queue)
    return took


def _hold(queue: QueueOnCluster) -> tuple[dict[str, Any], str]:
    """A fresh pod that holds the only item of the queue, and the name of its claim."""
    settled(queue, PODS)
    queue.enqueue(1)
    held: list[tuple[str, str]] = []

    def in_flight() -> bool:
        held[:] = [(one.worker or "", one.name or "") for one in queue.items.items(State.BUSY)]
        return bool(held)

    queue.wait("the item is claimed", in_flight, timeout=LONGEST, every=0.05)
    worker, name = held[0]
    return queue.pods()[worker.partition(".")[0]], name


def _reclaimed(queue: QueueOnCluster, name: str) -> float:
    """The instant at which the claim of that name ended."""
    wait_until(
        lambda: all(one.name != name for one in queue.items.items(State.BUSY)),
        LONGEST,
        f"an item still belongs to a dead worker after {LONGEST:.0f} s",
    )
    return time.monotonic()


def _end(queue: QueueOnCluster, pod: str) -> None:
    """Once the item is done: another pod in its place, so that no container is ever restarted with a delay."""
    finished(queue)
    queue.cluster.kubectl("delete", "pod", pod, f"--namespace={QUEUES}", "--grace-period=1", "--wait=false")


def finished(queue: QueueOnCluster) -> None:
    """Waits until all items are done."""
    queue.wait("the items are done", lambda: queue.counters()["done"] >= len(queue.known), timeout=LONGEST)


def settled(queue: QueueOnCluster, count: int) -> None:
    """So many pods, all of them ready, none of them ever restarted."""

    def are() -> bool:
        pods = list(queue.pods().values())
        return len(pods) == count and all(map(_is_fresh, pods))

    queue.wait(f"there are {count} fresh pods", are, timeout=LONGEST, every=0.25)


def _is_fresh(pod: dict[str, Any]) -> bool:
    status = pod["status"]
    containers = [*status.get("containerStatuses", []), *status.get("initContainerStatuses", [])]
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions", []))
    restarts = sum(one["restartCount"] for one in containers)
    return is_ready and "deletionTimestamp" not in pod["metadata"] and not restarts


def _abandoned_claim(queue: QueueOnCluster) -> Claim:
    """A claim that is never renewed; no worker of the queue takes its item."""
    queue.apply(
        program=WORKER,
        busyExpiry=f"{EXPIRY:.0f}s",
        scaling={"mode": "Manual", "replicas": 0, "maxReplicas": 1},
    )
    queue.wait("the queue is served", lambda: queue.condition("Ready").startswith("True"), timeout=LONGEST)
    queue.enqueue(1)
    (claim,) = queue.items.claim(1, wait=0)
    return claim


def _after_the_lease(queue: QueueOnCluster, claim: Claim) -> float:
    """From the claim until the operator gave it back, by the server's clock."""
    queue.wait("the lease is over", queue.items.peek, timeout=EXPIRY + LONGEST, every=0.5)
    (item,) = queue.items.peek()
    must(item.id == claim.item.id, "another item is in main than the one whose lease ran out")
    queue.cluster.kubectl("delete", "rq", queue.name, f"--namespace={QUEUES}")
    return item.enqueued_at - claim.claimed_at
