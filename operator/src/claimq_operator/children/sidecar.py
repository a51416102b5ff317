"""The sidecar container: a native sidecar, which starts before the app and stops after it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from claimq.address import variables
from claimq_control.manifest import PushSpec, QueueSpec
from claimq_control.quantity import parse_quantity
from claimq_kubernetes.port import Json, part
from claimq_operator.children import redis_secrets
from claimq_operator.children.merging import merge, without_empty
from claimq_operator.settings import OperatorSettings
from claimq_process.duration import format_duration
from claimq_process.names import (
    APP_SOCKET,
    HEALTH_PORT_NAME,
    LIFECYCLE_KEY_HEADER,
    SECRETS_DIRECTORY,
    SECRETS_VOLUME,
    SIDECAR_CONTAINER,
    SOCKET,
    SOCKET_DIRECTORY,
    SOCKET_VOLUME,
)

LOCKED_DOWN: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}
"""What the Pod Security level `restricted` requires of every container."""


def locked_down(container: Mapping[str, Any]) -> Json:
    """A container of the template with :data:`LOCKED_DOWN`, except for what it sets itself.

    A privileged container is left as it is: the API server refuses it with these settings.
    """
    if part(container, "securityContext").get("privileged"):
        return dict(container)
    return merge(container, {"securityContext": LOCKED_DOWN})


def socket_volume() -> Json:
    """The volume of the socket: in memory, shared by the containers of the pod."""
    return {"name": SOCKET_VOLUME, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}


def lifecycle_key(uid: str) -> str:
    """The key that the hooks of a queue's pods send, so that no other pod can start a drain.

    It is derived from the queue's uid, which is random and never changes. Any user who may read the queue, its pods or
    its Events can compute it: it keeps out pods, not people.
    """
    return hashlib.sha256(f"claimq lifecycle {uid}".encode()).hexdigest()[:32]


def sidecar(spec: QueueSpec, settings: OperatorSettings, key: str, namespace: str) -> Json:
    """The container; ``key`` is the queue's lifecycle key, ``namespace`` that of the queue."""
    redis = spec.redis
    mounts: list[Json] = [{"name": SOCKET_VOLUME, "mountPath": SOCKET_DIRECTORY}]
    if redis is not None and redis.secret_entries():
        mounts.append({"name": SECRETS_VOLUME, "mountPath": SECRETS_DIRECTORY, "readOnly": True})
    return without_empty(
        {
            "name": SIDECAR_CONTAINER,
            "image": spec.sidecar.image or settings.sidecar_image,
            "imagePullPolicy": settings.sidecar_pull_policy,
            "restartPolicy": "Always",
            "env": _environment(spec, key, namespace),
            "ports": [{"name": HEALTH_PORT_NAME, "containerPort": spec.sidecar.port, "protocol": "TCP"}],
            "resources": without_empty(
                {
                    "requests": dict(spec.sidecar.resources.requests),
                    "limits": dict(spec.sidecar.resources.limits),
                }
            ),
            # No startup probe: with one the app starts a second or two later (docs/decisions/operator.md).
            # The socket is there a few hundredths of a second after the sidecar's start, and the app's
            # requests wait until it serves.
            "readinessProbe": _probe(spec, "/readyz", period=5, failures=3),
            "livenessProbe": _probe(spec, "/healthz", period=10, failures=6),
            # Called when the pod begins to terminate: claims stop at once. SIGTERM follows after the app has exited.
            "lifecycle": {"preStop": {"httpGet": hook(spec, "/drain", key)}},
            "securityContext": {**LOCKED_DOWN, "runAsNonRoot": True, "readOnlyRootFilesystem": True},
            "volumeMounts": mounts,
        }
    )


def push_address(pushes: PushSpec) -> Json:
    """The variable with the port or socket of a push app, for the app and for the sidecar."""
    if pushes.port is None:
        return {"name": variables.PUSH_SOCKET, "value": APP_SOCKET}
    return {"name": variables.PUSH_PORT, "value": str(pushes.port)}


def http_get(spec: QueueSpec, path: str) -> Json:
    """An HTTP request of the kubelet to the sidecar that changes nothing."""
    return {"path": path, "port": spec.sidecar.port, "scheme": "HTTP"}


def hook(spec: QueueSpec, path: str, key: str) -> Json:
    """An HTTP request of the kubelet that starts a drain, with the lifecycle key. The kubelet can only send GET."""
    return {**http_get(spec, path), "httpHeaders": [{"name": LIFECYCLE_KEY_HEADER, "value": key}]}


def _probe(spec: QueueSpec, path: str, *, period: int, failures: int) -> Json:
    return {
        "httpGet": http_get(spec, path),
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
    }


def _environment(spec: QueueSpec, key: str, namespace: str) -> list[Json]:
    environment: list[Json] = [
        _field("POD_NAME", "metadata.name"),
        _field("POD_UID", "metadata.uid"),
        # The sidecar appends the time of its start, so that each run claims under its own worker name.
        {"name": variables.WORKER_PREFIX, "value": "$(POD_NAME).$(POD_UID)"},
        {"name": variables.QUEUE, "value": spec.queue_name},
        {"name": variables.SOCKET, "value": SOCKET},
        _field(variables.HEALTH_HOST, "status.podIP"),
        {"name": variables.HEALTH_PORT, "value": str(spec.sidecar.port)},
        {"name": variables.LIFECYCLE_KEY, "value": key},
        # SIGTERM comes after the app has exited, or when the kubelet kills the app at the end of the grace period: the
        # sidecar is killed two seconds later, so it does not wait (seen on Kubernetes 1.34.4 and 1.37.2).
        {"name": variables.LEAVE_AT_SIGTERM, "value": "true"},
        {"name": variables.CONCURRENCY, "value": str(spec.worker.concurrency)},
        {"name": variables.CLAIM_AHEAD, "value": str(spec.worker.claim_ahead)},
        {"name": variables.DRAIN_TIMEOUT, "value": format_duration(spec.worker.drain_timeout)},
    ]
    if (limit := spec.sidecar.resources.limits.get("memory")) is not None:
        environment.append({"name": variables.MEMORY, "value": str(int(parse_quantity(limit)))})
    if spec.processing_timeout is not None:
        environment.append(
            {"name": variables.PROCESSING_TIMEOUT, "value": format_duration(spec.processing_timeout)}
        )
    if (pushes := spec.worker.pushes) is not None:
        environment += [
            push_address(pushes),
            *({"name": name, "value": value} for name, value in pushes.environment().items()),
        ]
    return [
        *environment,
        *(redis_secrets.environment(spec.redis, namespace) if spec.redis is not None else []),
    ]


def _field(name: str, path: str) -> Json:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
