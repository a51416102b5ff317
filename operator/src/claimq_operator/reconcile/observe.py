"""Combines the cached objects of a queue and the state of its server into one observation."""

from __future__ import annotations

from claimq_control.decide.observed import Observed
from claimq_control.fault import Fault
from claimq_kubernetes.worker_pods import read_pods
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.workers_state import workers_state
from claimq_operator.reconcile.server import ServerState
from claimq_operator.watch.cache import Cache


def observe(
    cache: Cache,
    objects: Objects,
    server: ServerState,
    refusal: Fault | None,
    standing_by: tuple[str, ...] = (),
) -> Observed:
    """What is known of the queue now. ``refusal``: why the API server rejected the children in the previous pass.
    ``standing_by``: other releases of the operator that serve the namespace."""
    maintained = server.maintained
    infos = () if maintained is None else maintained.workers
    pods = read_pods(cache.pods(objects.resource.key), infos)
    return Observed(
        objects.resource,
        workers_state(objects, pods, refusal=refusal, standing_by=standing_by),
        None if maintained is None else maintained.snapshot,
        server.report,
        server.fault,
    )
