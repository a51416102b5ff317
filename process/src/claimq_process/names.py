"""Names in a worker pod that several components use: containers, volumes, labels and ports. Pure.

The names of environment variables are in ``claimq.address.variables``.
"""

from __future__ import annotations

import re
from typing import Final

API_VERSION: Final = "claimq.dev/v1alpha1"
PREFIX: Final = "claimq.dev/"
"""The prefix of our labels and annotations; templates must not use it."""
QUEUE_LABEL: Final = PREFIX + "queue"
"""Label of every child and worker pod: the name of its ReliableQueue."""
OPERATOR_VERSION_LABEL: Final = PREFIX + "operator-version"
"""Label of a worker Deployment: the release of the operator that has applied it."""
VERSION_LABEL: Final = "app.kubernetes.io/version"
COMPONENT_LABEL: Final = "app.kubernetes.io/component"
WORKER_COMPONENT: Final = "worker"

APP_CONTAINER: Final = "worker"
SIDECAR_CONTAINER: Final = "claimq-sidecar"

SOCKET_VOLUME: Final = "claimq-socket"
"""The volume of the sidecar's socket. A container that mounts it can claim."""
SOCKET_DIRECTORY: Final = "/run/claimq"
SOCKET: Final = SOCKET_DIRECTORY + "/claimq.sock"
SOCKET_MODE: Final = 0o660
"""The path of the socket in a pod; ``claimq.worker`` has the same default."""
APP_SOCKET: Final = SOCKET_DIRECTORY + "/app.sock"
"""The path in a pod of the socket of an app that listens for items."""
SECRETS_VOLUME: Final = "claimq-redis"
"""The volume with the files of the Secrets that ``spec.redis`` names."""
SECRETS_DIRECTORY: Final = "/run/claimq-redis"

HEALTH_PORT: Final = 9464
"""The sidecar's port for probes, hooks and metrics."""
HEALTH_PORT_NAME: Final = "claimq-health"
LIFECYCLE_KEY_HEADER: Final = "Claimq-Lifecycle-Key"
"""The header of a hook with the lifecycle key, which the sidecar requires to start a drain."""

WAITS_FOR_APP: Final = "waiting for the app"
"""The status on `/readyz` of a sidecar that could serve, but whose app is not ready for the items it sends."""

GRACE_MARGIN: Final = 10
"""Seconds of a pod's grace period after drainTimeout: for the app to exit, then for the sidecar to return items."""

_WORKER_OF_A_POD: Final = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)\.([0-9a-f-]{36})\.[0-9]+")


def pod_of_worker(worker: str) -> tuple[str, str] | None:
    """Name and uid of the pod in which a worker of this name runs. None if the name has another form."""
    match = _WORKER_OF_A_POD.fullmatch(worker)
    return (match[1], match[2]) if match else None


def worker_prefix(pod: str, uid: str) -> str:
    """The common prefix of the worker names of a pod. Each run of its sidecar appends the time of its start."""
    return f"{pod}.{uid}."
