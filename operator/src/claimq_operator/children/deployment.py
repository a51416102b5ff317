"""The worker Deployment. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from claimq_operator.children import redis_secrets
from claimq_operator.children.app import app
from claimq_operator.children.merging import by_name, over, without_empty
from claimq_operator.children.sidecar import lifecycle_key, sidecar, socket_volume
from claimq_operator.kubernetes_api.labels import APP_CONTAINER, child_labels, child_name, selector_labels
from claimq_operator.kubernetes_api.port import DEPLOYMENTS, Json, part, parts
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_operator.settings import OperatorSettings
from claimq_spec.manifest import QueueSpec

GRACE_MARGIN = 10
"""Seconds of a pod's grace beyond drainTimeout: for the app to end, then for the sidecar to give back what is left."""
SHARED_GROUP = 64646
"""The group of the socket's directory, so that app and sidecar may run as different users."""


@dataclass(frozen=True, slots=True)
class WorkerDeployment:
    """The object, and what was left out of it since the template says something else."""

    body: Json
    left_out: tuple[str, ...] = ()


def deployment(
    resource: QueueResource, spec: QueueSpec, settings: OperatorSettings, *, replicas: int | None = None
) -> WorkerDeployment:
    """The Deployment; ``replicas`` only when it is made, since the number has another owner afterwards."""
    template, left_out = _template(resource, spec, settings)
    body: Json = {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": {
            "name": child_name(resource.name),
            "namespace": resource.namespace,
            "labels": child_labels(resource.name),
            "ownerReferences": [resource.owner()],
        },
        "spec": {
            "selector": {"matchLabels": selector_labels(resource.name)},
            "revisionHistoryLimit": 3,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": template,
        },
    }
    if replicas is not None:
        body["spec"]["replicas"] = replicas
    return WorkerDeployment(body, left_out)


def _template(
    resource: QueueResource, spec: QueueSpec, settings: OperatorSettings
) -> tuple[Json, tuple[str, ...]]:
    metadata = spec.worker.template.metadata
    given: Mapping[str, Any] = spec.worker.template.spec
    key = lifecycle_key(resource.uid)
    made = app(spec, key)
    others = [one for one in parts(given, "containers") if one.get("name") != APP_CONTAINER]
    own: Json = {
        "containers": [made.container, *others],
        # Behind the template's own: a network proxy among those is there when the sidecar starts.
        "initContainers": [*parts(given, "initContainers"), sidecar(spec, settings, key)],
        "volumes": by_name(_volumes(spec), parts(given, "volumes")),
        "securityContext": over(part(given, "securityContext"), _pod_security()),
    }
    defaults: Json = {
        "automountServiceAccountToken": False,
        # Said even where the template is silent: the API server copies the name into the old field `serviceAccount`,
        # which nobody owns, and would take it from there again when the template drops it.
        "serviceAccountName": given.get("serviceAccount") or "default",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": math.ceil(spec.worker.drain_timeout) + GRACE_MARGIN,
    }
    labels = {**metadata.labels, **child_labels(resource.name)}
    head = without_empty({"labels": labels, "annotations": dict(metadata.annotations)})
    return {"metadata": head, "spec": over(own, over(given, defaults))}, made.left_out


def _volumes(spec: QueueSpec) -> list[Json]:
    secrets = redis_secrets.volume(spec.redis) if spec.redis is not None else None
    return [socket_volume(), *([secrets] if secrets is not None else [])]


def _pod_security() -> Json:
    """What Pod Security `restricted` asks of a pod; the template's own settings win."""
    return {
        "runAsNonRoot": True,
        "fsGroup": SHARED_GROUP,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
