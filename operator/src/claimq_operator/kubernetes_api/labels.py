"""Names that the operator writes into the cluster: labels, annotations, field managers, children."""

from __future__ import annotations

PREFIX = "claimq.dev/"

QUEUE = PREFIX + "queue"
"""Label of every child and worker pod: the name of its ReliableQueue."""
COMPONENT = "app.kubernetes.io/component"
WORKER = "worker"
SELECTOR = f"{QUEUE},{COMPONENT}={WORKER}"
"""What the operator watches pods and Deployments by."""

PAUSE = PREFIX + "pause-reconcile"
"""Annotation of a ReliableQueue: "true" keeps the operator's hands off its children and its number of workers."""
TAKE_OVER = PREFIX + "take-over-from"
"""Annotation of a ReliableQueue: the owner of its queue on the server that it takes the queue over from."""
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
FINALIZER = PREFIX + "deletion-policy"

FIELD_MANAGER = "claimq-operator"
SCALE_MANAGER = "claimq-scale"
"""Owns the number of replicas apart from all else, so that another controller can take just that over."""
STATUS_MANAGER = "claimq-status"

APP_CONTAINER = "worker"
SIDECAR_CONTAINER = "claimq-sidecar"
SOCKET_VOLUME = "claimq-socket"
"""The volume of the sidecar's socket: a container that mounts it may claim."""


def child_name(queue: str) -> str:
    """The name of a queue's Deployment and PodDisruptionBudget."""
    return f"{queue}-worker"


def selector_labels(queue: str) -> dict[str, str]:
    """What selects a queue's worker pods. A Deployment's selector cannot be changed, so neither can this."""
    return {QUEUE: queue, COMPONENT: WORKER}


def child_labels(queue: str) -> dict[str, str]:
    """The labels of a queue's children."""
    return {
        "app.kubernetes.io/name": "claimq-worker",
        "app.kubernetes.io/instance": queue,
        "app.kubernetes.io/managed-by": FIELD_MANAGER,
        **selector_labels(queue),
    }


def selector_text(queue: str) -> str:
    """The same selector as one text, for status.selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector_labels(queue).items()))


def worker_prefix(pod: str, uid: str) -> str:
    """What the names of all workers begin with that a pod's sidecar claims as, one for each start of it."""
    return f"{pod}.{uid}."
