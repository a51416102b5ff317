"""KEDA, and the HPA that it makes, scale a queue through its scale subresource. Run by `make test-keda`."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from claimq_bench.simulation.scalers import KedaSettings
from clusterkit import Cluster
from testkit.on_cluster import keda, ledger
from testkit.on_cluster.queue_on_cluster import QueueOnCluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        os.environ.get("CLAIMQ_KEDA") != "1", reason="KEDA takes minutes to build: make test-keda"
    ),
]
QUICK = KedaSettings(target=2, polling=2, cooldown=5, window=0, max_replicas=3)


@pytest.fixture(scope="module", autouse=True)
def autoscaler(kubernetes: Cluster) -> Iterator[None]:
    with keda.installed(kubernetes):
        yield


@pytest.fixture
def scaled(queue: QueueOnCluster) -> Iterator[QueueOnCluster]:
    """A queue in the mode External, without workers, that KEDA scales; an item waits for its gate."""
    scaling = {"mode": "External", "replicas": 0}
    queue.apply(program=ledger.GATED, seconds=0, worker={"drainTimeout": "120s"}, scaling=scaling)
    queue.wait("it rests", lambda: (queue.replicas(), queue.condition("Ready")) == (0, "True Working"))
    with keda.scaling(queue, QUICK):
        yield queue


def asked_for(queue: QueueOnCluster) -> int:
    """What the autoscaler has written into the queue's scale subresource."""
    return int(queue.get()["spec"]["scaling"]["replicas"])


def ready_workers(queue: QueueOnCluster) -> int:
    return sum(since != "" for _, since in queue.lives().values())


def test_keda_and_its_hpa_scale_a_queue_from_zero_and_never_below_its_claims(scaled: QueueOnCluster) -> None:
    scaled.enqueue(9)
    scaled.wait("as many as the HPA may", lambda: sorted(scaled.holders().values()) == [1, 1, 1])
    found: dict[str, Any] = json.loads(
        scaled.cluster.kubectl("get", "hpa", "-o", "json", f"--namespace={scaled.namespace}")
    )
    target = {"apiVersion": "claimq.dev/v1alpha1", "kind": "ReliableQueue", "name": scaled.name}
    assert [one["spec"]["scaleTargetRef"] for one in found["items"]] == [target]
    assert scaled.condition("ScalingActive") == "False External"

    scaled.open(*(f"item-{number}" for number in range(6)))
    scaled.wait("the last three are in progress", lambda: scaled.counters()["done"] == 6)
    # Nothing waits: the HPA asks for one, and then KEDA for none.
    scaled.wait("KEDA asks for none", lambda: asked_for(scaled) == 0)
    assert (scaled.replicas(), sorted(scaled.holders().values())) == (3, [1, 1, 1])
    scaled.open("item-6", "item-7")
    scaled.wait("the idle ones are gone", lambda: len(scaled.pods()) == 1)
    assert (scaled.replicas(), list(scaled.holders().values())) == (1, [1])
    scaled.open("item-8")
    scaled.wait_until_done()
    scaled.wait("all are gone", lambda: not scaled.pods())
    assert scaled.ledger().not_once(scaled.known) == {}


def test_a_suspended_queue_has_no_workers_while_keda_is_paused(scaled: QueueOnCluster) -> None:
    keda.annotate(scaled, {keda.PAUSED: "0"})
    scaled.patch({"suspend": True})
    scaled.wait("it is reported", lambda: scaled.condition("Suspended") == "True SpecSuspend")
    scaled.enqueue(3)
    scaled.wait("KEDA sees them", lambda: scaled.counters()["in main"] == 3)
    assert not scaled.pods()
    keda.annotate(scaled, {keda.PAUSED: None})
    scaled.patch({"suspend": False})
    scaled.open("item")
    scaled.wait_until_done()


def test_a_paused_queue_gets_workers_that_claim_nothing(scaled: QueueOnCluster) -> None:
    scaled.items.pause()
    scaled.enqueue(4)
    scaled.wait("KEDA starts two", lambda: ready_workers(scaled) == 2)
    assert (scaled.holders(), scaled.counters()["claimed"]) == ({}, 0)
    scaled.items.resume()
    scaled.open("item")
    scaled.wait_until_done()
