"""The operator's settings, read once from the environment; all problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from claimq_control.grants import NO_QUEUE_GRANTS, QueueGrants
from claimq_operator.grants import RESTRICTIONS
from claimq_process.environment import Environment
from claimq_process.log_lines import LEVELS

_CLUSTER_ID = re.compile("[A-Za-z0-9](?:[A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")
_NAMESPACE = re.compile("[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of one operator. Durations in seconds."""

    sidecar_image: str
    """CLAIMQ_SIDECAR_IMAGE: the image of the sidecar in worker pods, unless a queue names its own."""
    sidecar_pull_policy: str | None = None
    """CLAIMQ_SIDECAR_PULL_POLICY (by the tag): pull policy of that image: Always, IfNotPresent or Never."""
    namespaces: tuple[str, ...] = ()
    """CLAIMQ_NAMESPACES, separated by commas (the whole cluster): the namespaces to serve."""
    own_namespace: str = "default"
    """CLAIMQ_OPERATOR_NAMESPACE: the namespace of the operator and its Lease."""
    identity: str = "claimq-operator"
    """CLAIMQ_OPERATOR_ID (the host's name): the name of this process in the Lease."""
    elects_leader: bool = True
    """CLAIMQ_LEADER_ELECTION: whether several operators elect one that reconciles."""
    lease_name: str = "claimq-operator"
    """CLAIMQ_LEASE_NAME: the Lease of the leader election, and the name of this release in the Leases of namespaces."""
    lease_duration: float = 15.0
    """CLAIMQ_LEASE_DURATION: how long the others wait for a leader that does not renew the Lease."""
    http_host: str = ""
    """CLAIMQ_HTTP_HOST (all addresses): the address that serves probes and metrics."""
    http_port: int = 8080
    """CLAIMQ_HTTP_PORT: the port of `/livez`, `/readyz` and `/metrics`. With 0 a free port is chosen and logged."""
    busy_period: float = 1.0
    """CLAIMQ_BUSY_PERIOD: the time between two passes over a queue that has items or workers."""
    idle_period: float = 10.0
    """CLAIMQ_IDLE_PERIOD: the same between looks at a queue without items and workers; a new item starts a pass at
    once."""
    status_period: float = 10.0
    """CLAIMQ_STATUS_PERIOD: the minimum time between two writes of a status whose conditions have not changed."""
    resync_period: float = 60.0
    """CLAIMQ_RESYNC_PERIOD: how often all objects are listed again, which bounds the effect of a missed event."""
    deletion_patience: float = 300.0
    """CLAIMQ_DELETION_PATIENCE: how long a deletion waits for the queue's server before it leaves the items there."""
    cluster_id: str = ""
    """CLAIMQ_CLUSTER_ID (the uid of `kube-system`): this cluster's name in the owner records of queues."""
    grants: QueueGrants = NO_QUEUE_GRANTS
    """Names of queues and hosts of passwords in addition to those of the namespaces and Secrets."""
    workers_may: tuple[str, ...] = ()
    """CLAIMQ_WORKERS_MAY, separated by commas: restricted features that pod templates may use."""
    log_level: str = "info"
    """CLAIMQ_LOG_LEVEL: least level of a logged line: debug, info, warn or error."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> OperatorSettings:
        """Reads the CLAIMQ_ variables. Raises InvalidSettings with every problem."""
        reader = Environment(environ)
        settings = cls(
            sidecar_image=_image(reader),
            sidecar_pull_policy=reader.choice(
                "CLAIMQ_SIDECAR_PULL_POLICY", ("Always", "IfNotPresent", "Never"), None
            ),
            namespaces=_namespaces(reader),
            own_namespace=reader.text("CLAIMQ_OPERATOR_NAMESPACE") or "default",
            identity=reader.text("CLAIMQ_OPERATOR_ID") or reader.text("HOSTNAME") or "claimq-operator",
            elects_leader=reader.boolean("CLAIMQ_LEADER_ELECTION", default=True),
            lease_name=reader.text("CLAIMQ_LEASE_NAME") or "claimq-operator",
            lease_duration=reader.duration("CLAIMQ_LEASE_DURATION", 15.0, at_least=3.0),
            http_host=reader.text("CLAIMQ_HTTP_HOST") or "",
            http_port=reader.port("CLAIMQ_HTTP_PORT", 8080),
            busy_period=reader.duration("CLAIMQ_BUSY_PERIOD", 1.0, at_least=0.1),
            idle_period=reader.duration("CLAIMQ_IDLE_PERIOD", 10.0, at_least=0.1),
            status_period=reader.duration("CLAIMQ_STATUS_PERIOD", 10.0, at_least=1.0),
            resync_period=reader.duration("CLAIMQ_RESYNC_PERIOD", 60.0, at_least=5.0),
            deletion_patience=reader.duration("CLAIMQ_DELETION_PATIENCE", 300.0, at_least=0.0),
            cluster_id=_cluster_id(reader),
            grants=QueueGrants.read(reader),
            workers_may=_workers_may(reader),
            log_level=reader.choice("CLAIMQ_LOG_LEVEL", tuple(LEVELS), "info"),
        )
        reader.end()
        return settings


def _image(reader: Environment) -> str:
    image = reader.text("CLAIMQ_SIDECAR_IMAGE")
    if image is None:
        reader.bad("CLAIMQ_SIDECAR_IMAGE", "is not set; set it to the sidecar image of this release")
    return image or ""


def _namespaces(reader: Environment) -> tuple[str, ...]:
    text = reader.text("CLAIMQ_NAMESPACES") or ""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            reader.bad(
                "CLAIMQ_NAMESPACES", f'"{name}" is not a valid namespace; give names separated by commas'
            )
    return names


def _cluster_id(reader: Environment) -> str:
    text = reader.text("CLAIMQ_CLUSTER_ID") or ""
    if text and not _CLUSTER_ID.fullmatch(text):
        reader.bad("CLAIMQ_CLUSTER_ID", "is not a valid name; give up to 63 letters, digits, '-' and '.'")
    return text


def _workers_may(reader: Environment) -> tuple[str, ...]:
    text = reader.text("CLAIMQ_WORKERS_MAY") or ""
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    for word in words:
        if word not in RESTRICTIONS:
            reader.bad("CLAIMQ_WORKERS_MAY", f'"{word}" is not one of {", ".join(RESTRICTIONS)}')
    return words
