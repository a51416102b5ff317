"""What every queue's runner works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from claimq_operator.cluster import Cluster
from claimq_operator.liveness import Liveness
from claimq_operator.metrics import Metrics
from claimq_operator.recorder import Recorder
from claimq_operator.redis_servers import RedisServers
from claimq_operator.settings import OperatorSettings
from claimq_operator.sightings import Sightings
from claimq_operator.tenancy import Tenancy


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Shared by all runners of one process. ``wall``: Unix seconds, for what the API's objects show."""

    settings: OperatorSettings
    cluster: Cluster
    sightings: Sightings
    servers: RedisServers
    tenancy: Tenancy
    recorder: Recorder
    metrics: Metrics
    liveness: Liveness
    wall: Callable[[], float]
