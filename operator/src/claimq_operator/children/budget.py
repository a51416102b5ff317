"""The PodDisruptionBudget of a queue's workers. Pure."""

from __future__ import annotations

from claimq_operator.kubernetes_api.labels import selector_labels
from claimq_operator.kubernetes_api.queue_resource import QueueResource
from claimq_spec.kubernetes_api.port import BUDGETS, Json


def budget(resource: QueueResource) -> Json:
    """A budget of a quarter of the workers, at least one, so that it never blocks the drain of a node."""
    spec = {
        "maxUnavailable": "25%",
        "selector": {"matchLabels": selector_labels(resource.name)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return resource.child(BUDGETS, spec)
