"""Selectors, annotations, field managers and names of child objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq_kubernetes.port import part
from claimq_process.names import COMPONENT_LABEL, PREFIX, QUEUE_LABEL, WORKER_COMPONENT

SELECTOR = f"{QUEUE_LABEL},{COMPONENT_LABEL}={WORKER_COMPONENT}"
"""The label selector of all worker pods and Deployments."""

PAUSE = PREFIX + "pause-reconcile"
"""Annotation of a ReliableQueue: with "true" the operator does not change its children and its number of workers."""
TAKE_OVER = PREFIX + "take-over-from"
"""Annotation of a ReliableQueue: the owner to take the queue on the server over from."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINALIZER = PREFIX + "deletion-policy"

NAMESPACE_LEASE = "queues.claimq.dev"
"""The Lease of a namespace with queues. No release has this name, so none has such a Lease for its election."""
STANDS_BY = PREFIX + "stands-by"
"""Annotation of that Lease: a release that serves the namespace too, and the time of the entry."""

FIELD_MANAGER = "claimq-operator"
SCALE_MANAGER = "claimq-scale"
"""Owns only the number of replicas, so that another controller can take over that field alone."""
STATUS_MANAGER = "claimq-status"


def child_name(queue: str) -> str:
    """The name of a queue's Deployment and PodDisruptionBudget."""
    return f"{queue}-worker"


def selector_labels(queue: str) -> dict[str, str]:
    """The labels that select a queue's worker pods. A Deployment's selector is immutable, so these must not change."""
    return {QUEUE_LABEL: queue, COMPONENT_LABEL: WORKER_COMPONENT}


def is_worker_of(pod: Mapping[str, Any], queue: str) -> bool:
    """Whether a pod has the labels of this queue's workers."""
    return selector_labels(queue).items() <= part(pod["metadata"], "labels").items()


def child_labels(queue: str) -> dict[str, str]:
    """The labels of a queue's children."""
    return {
        "app.kubernetes.io/name": "claimq-worker",
        "app.kubernetes.io/instance": queue,
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        **selector_labels(queue),
    }


def selector_text(queue: str) -> str:
    """The selector in text form, for status.selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector_labels(queue).items()))
