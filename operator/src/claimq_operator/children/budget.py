"""The PodDisruptionBudget of a queue's workers. Pure."""

from __future__ import annotations

from claimq_operator.kubernetes_api.labels import child_labels, child_name, selector_labels
from claimq_operator.kubernetes_api.port import BUDGETS, Json
from claimq_operator.kubernetes_api.queue_resource import QueueResource


def budget(resource: QueueResource) -> Json:
    """A budget of a quarter of the workers, at least one, so that it never blocks the drain of a node."""
    return {
        "apiVersion": BUDGETS.api_version,
        "kind": BUDGETS.kind,
        "metadata": {
            "name": child_name(resource.name),
            "namespace": resource.namespace,
            "labels": child_labels(resource.name),
            "ownerReferences": [resource.owner()],
        },
        "spec": {
            "maxUnavailable": "25%",
            "selector": {"matchLabels": selector_labels(resource.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
