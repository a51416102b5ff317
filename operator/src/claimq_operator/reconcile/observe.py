"""Combines the cached objects of a queue and the state of its server into one observation."""

from __future__ import annotations

from claimq_kubernetes.queue_resource import QueueResource
from claimq_kubernetes.worker_pods import read_pods
from claimq_operator.decide.observed import Observed
from claimq_operator.fault import Fault
from claimq_operator.reconcile.server import ServerState
from claimq_operator.watch.cache import Cache


def observe(
    cache: Cache,
    resource: QueueResource,
    server: ServerState,
    refusal: Fault | None,
    standing_by: tuple[str, ...] = (),
) -> Observed:
    """What is known of the queue now. ``refusal``: why the API server rejected the children in the previous pass.
    ``standing_by``: other releases of the operator that serve the namespace."""
    maintained = server.maintained
    workers = () if maintained is None else maintained.workers
    return Observed(
        resource=resource,
        deployment=cache.deployment_of(resource),
        pods=read_pods(cache.pods(resource.key), workers),
        snapshot=None if maintained is None else maintained.snapshot,
        workers=workers,
        report=server.report,
        redis_fault=server.fault,
        refusal=refusal,
        standing_by=standing_by,
    )
