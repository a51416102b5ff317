"""The objects that all reconcilers of a process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from claimq_kubernetes.budgets import Budgets
from claimq_kubernetes.port import Cluster
from claimq_operator.election.namespace_leases import NamespaceLeases
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache


@dataclass(frozen=True, slots=True)
class Context:
    """``wall_clock`` returns Unix seconds, for timestamps in API objects."""

    settings: OperatorSettings
    cluster: Cluster
    cache: Cache
    connections: RedisConnections
    ownership: Ownership
    namespaces: NamespaceLeases
    budgets: Budgets
    recorder: EventRecorder
    metrics: Metrics
    liveness: Liveness
    wall_clock: Callable[[], float]
