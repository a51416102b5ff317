"""What every queue's runner works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from claimq_operator.kubernetes_api.port import Cluster
from claimq_operator.redis.connections import RedisConnections
from claimq_operator.redis.ownership import Ownership
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.event_recorder import EventRecorder
from claimq_operator.telemetry.liveness import Liveness
from claimq_operator.telemetry.metrics import Metrics
from claimq_operator.watch.cache import Cache


@dataclass(frozen=True, slots=True)
class Context:
    """Shared by all runners of one process. ``wall``: Unix seconds, for what the API's objects show."""

    settings: OperatorSettings
    cluster: Cluster
    cache: Cache
    servers: RedisConnections
    ownership: Ownership
    recorder: EventRecorder
    metrics: Metrics
    liveness: Liveness
    wall: Callable[[], float]
