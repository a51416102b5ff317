"""The PodDisruptionBudget of a queue's workers. Pure."""

from __future__ import annotations

from claimq_kubernetes.labels import selector_labels
from claimq_kubernetes.port import BUDGETS, Json
from claimq_kubernetes.queue_resource import QueueResource
from claimq_process.names import QUEUE_LABEL


def budget(resource: QueueResource, *, is_on: bool = True) -> Json:
    """A budget of a quarter of the workers, at least one. So it never blocks the drain of a node.

    A budget that is not on selects no pod, since the operator may delete nothing.
    """
    selector: Json = {"matchLabels": selector_labels(resource.name)}
    if not is_on:
        selector["matchExpressions"] = [{"key": QUEUE_LABEL, "operator": "DoesNotExist"}]
    spec = {"maxUnavailable": "25%", "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    return resource.child(BUDGETS, spec)


def is_off(body: Json) -> bool:
    """Whether a budget of :func:`budget` selects no pod."""
    return "matchExpressions" in body["spec"]["selector"]
