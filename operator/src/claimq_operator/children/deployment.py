"""The worker Deployment. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_control.manifest import QueueSpec
from claimq_kubernetes.labels import child_labels, selector_labels
from claimq_kubernetes.port import DEPLOYMENTS, Json, parts
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children import redis_secrets
from claimq_operator.children.app import app
from claimq_operator.children.merging import merge, merge_by_name, without_empty
from claimq_operator.children.mesh import with_mesh
from claimq_operator.children.sidecar import lifecycle_key, locked_down, sidecar, socket_volume
from claimq_operator.settings import OperatorSettings
from claimq_process.names import APP_CONTAINER, GRACE_MARGIN, OPERATOR_VERSION_LABEL
from claimq_process.release import release_labels

SHARED_GROUP = 64646
"""The group that owns the socket's directory, so that app and sidecar can run as different users."""


@dataclass(frozen=True, slots=True)
class WorkerDeployment:
    """The Deployment, and a sentence for each part that was not injected because the template has its own."""

    body: Json
    left_out: tuple[str, ...] = ()


def deployment(resource: QueueResource, spec: QueueSpec, settings: OperatorSettings) -> WorkerDeployment:
    """The Deployment without its number of replicas, which another field manager owns."""
    template, left_out = _template(resource, spec, settings)
    body: Json = {
        "selector": {"matchLabels": selector_labels(resource.name)},
        "revisionHistoryLimit": 3,
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": spec.worker.max_unavailable or "25%"},
        },
        "template": template,
    }
    # Not in the template, where another release would replace all pods.
    metadata = spec.worker.deployment
    labels = {**metadata.labels, **release_labels(OPERATOR_VERSION_LABEL)}
    return WorkerDeployment(resource.child(DEPLOYMENTS, body, labels, metadata.annotations), left_out)


def _template(
    resource: QueueResource, spec: QueueSpec, settings: OperatorSettings
) -> tuple[Json, tuple[str, ...]]:
    metadata = spec.worker.template.metadata
    pod: Mapping[str, Any] = spec.worker.template.spec
    key = lifecycle_key(resource.uid)
    worker_app = app(spec, key)
    other_containers = [
        locked_down(container)
        for container in parts(pod, "containers")
        if container.get("name") != APP_CONTAINER
    ]
    init = [locked_down(container) for container in parts(pod, "initContainers")]
    fields: Json = {
        "containers": [worker_app.container, *other_containers],
        # After the template's own, so that a network proxy among those runs when the sidecar starts.
        "initContainers": [*init, sidecar(spec, settings, key, resource.namespace)],
        "volumes": merge_by_name(_volumes(spec), parts(pod, "volumes")),
        # Always set: the API server copies the name into the deprecated field `serviceAccount`, which has no field
        # manager, and would restore it from there when the template drops it.
        "serviceAccountName": pod.get("serviceAccountName") or pod.get("serviceAccount") or "default",
    }
    defaults: Json = {
        "securityContext": _pod_security(),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(spec.worker.drain_timeout) + GRACE_MARGIN,
    }
    labels = {**metadata.labels, **child_labels(resource.name)}
    annotations = with_mesh(metadata.annotations, spec.worker.mesh, spec.sidecar.port)
    head = without_empty({"labels": labels, "annotations": annotations})
    return {"metadata": head, "spec": merge(fields, merge(pod, defaults))}, worker_app.left_out


def _volumes(spec: QueueSpec) -> list[Json]:
    secrets = redis_secrets.volume(spec.redis) if spec.redis is not None else None
    return [socket_volume(), *([secrets] if secrets is not None else [])]


def _pod_security() -> Json:
    """What the Pod Security level `restricted` requires of a pod; the template's own settings win."""
    return {
        "runAsNonRoot": True,
        "fsGroup": SHARED_GROUP,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
