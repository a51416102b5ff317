"""PORT: the requests of operator and web page to the Kubernetes API, and their errors. Objects are plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from claimq_process.names import API_VERSION

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object and its path in the API."""

    api_version: str
    kind: str
    plural: str

    @property
    def root(self) -> str:
        """The common prefix of its paths."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of a collection or of one object."""
        where = f"/namespaces/{namespace}" if namespace is not None and self.plural != "namespaces" else ""
        parts = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{self.root}{where}/{self.plural}{parts}"


QUEUES = Kind(API_VERSION, "ReliableQueue", "reliablequeues")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
PODS = Kind("v1", "Pod", "pods")
SECRETS = Kind("v1", "Secret", "secrets")
EVENTS = Kind("v1", "Event", "events")
NAMESPACES = Kind("v1", "Namespace", "namespaces")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
TOKEN_REVIEWS = Kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews")
ACCESS_REVIEWS = Kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews")
BY_KIND = {
    resource.kind: resource for resource in (QUEUES, DEPLOYMENTS, BUDGETS, PODS, SECRETS, EVENTS, LEASES)
}


def part(body: Mapping[str, Any] | None, key: str) -> Json:
    """The object at ``key``; an empty one if it is missing or null."""
    return (body or {}).get(key) or {}


def parts(body: Mapping[str, Any] | None, key: str) -> list[Json]:
    """The list at ``key``; an empty one if it is missing or null."""
    return (body or {}).get(key) or []


class ClusterError(Exception):
    """A request to the API server failed."""


class ClusterUnavailable(ClusterError):
    """The API server cannot be reached, is overloaded or failing. Retry later."""


class NotFound(ClusterError):
    """The object, or its kind, does not exist."""


class Conflict(ClusterError):
    """Another client has changed or created the object. Read it again, then decide again."""


class Refused(ClusterError):
    """The API server rejected the request and retrying does not help: no permission, or an invalid object."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class NamespaceEnding(Refused):
    """The namespace is being deleted, so nothing can be created in it."""


class Cluster(Protocol):
    """The requests. Each has a timeout; all raise ClusterError."""

    async def has_kind(self, kind: Kind) -> bool:
        """Whether the API server lists the kind, so that clients can find it."""
        ...

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Reads one object. Raises NotFound."""
        ...

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
        *,
        fields: str = "",
    ) -> list[Json]:
        """Lists the objects of a namespace (None: of the cluster) that match a label selector and a field selector.

        ``keep`` is applied to each object as its page arrives, so that a long list is never in memory as a whole.
        """
        ...

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        """Server-side apply as the field manager ``manager``; returns the object.

        ``force``: take over fields that other managers own; without it, such a field raises Conflict.
        """
        ...

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        """Sends a merge patch. With ``metadata.resourceVersion`` in it, raises Conflict if the object has changed."""
        ...

    async def create(self, kind: Kind, body: Json) -> Json:
        """Creates an object; returns it. Raises Conflict if the name exists. A review comes back with its status."""
        ...


class EvictingCluster(Cluster, Protocol):
    """The requests of the web page, which also drains workers."""

    async def evict(self, namespace: str, name: str, uid: str) -> None:
        """Asks for the end of a pod within its grace period, as far as its disruption budget allows.

        Raises NotFound, Conflict if the pod of that name has another uid, ClusterUnavailable if the budget is used up.
        """
        ...
