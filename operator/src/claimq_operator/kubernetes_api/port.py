"""PORT: what the operator asks of a cluster, and how that can fail. Objects are plain JSON, as the API has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object and where the API serves it."""

    api_version: str
    kind: str
    plural: str

    @property
    def root(self) -> str:
        """The beginning of its paths."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """The path of a collection or of one object."""
        where = f"/namespaces/{namespace}" if namespace is not None and self.plural != "namespaces" else ""
        parts = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{self.root}{where}/{self.plural}{parts}"


QUEUES = Kind("claimq.dev/v1alpha1", "ReliableQueue", "reliablequeues")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
BUDGETS = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
PODS = Kind("v1", "Pod", "pods")
SECRETS = Kind("v1", "Secret", "secrets")
EVENTS = Kind("v1", "Event", "events")
NAMESPACES = Kind("v1", "Namespace", "namespaces")
LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")
BY_KIND = {one.kind: one for one in (QUEUES, DEPLOYMENTS, BUDGETS, PODS, SECRETS, EVENTS, LEASES)}


def part(body: Mapping[str, Any] | None, key: str) -> Json:
    """An object within an object; an empty one where there is none."""
    return (body or {}).get(key) or {}


def parts(body: Mapping[str, Any] | None, key: str) -> list[Json]:
    """A list of objects within an object; an empty one where there is none."""
    return (body or {}).get(key) or []


class ClusterError(Exception):
    """The root of what a cluster answers instead of doing what it was asked."""


class ClusterUnavailable(ClusterError):
    """The API server cannot be reached or cannot serve now, or asks for fewer requests. Try again later."""


class NotThere(ClusterError):
    """There is no such object (or no such kind). Go by that, or wait for it."""


class Conflicting(ClusterError):
    """Somebody else has changed or made the object meanwhile. Look again, then decide anew."""


class Refused(ClusterError):
    """The answer will not change by itself: a permission is missing, or the object is not valid. Tell a person."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        super().__init__(message)
        self.forbidden = forbidden


class Cluster(Protocol):
    """The verbs that the operator uses. Each call is one request, bounded in time; all raise ClusterError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """One object."""
        ...

    async def list(
        self,
        kind: Kind,
        namespace: str | None,
        selector: str = "",
        keep: Callable[[Json], Json] | None = None,
    ) -> list[Json]:
        """All objects of a namespace (None: of the cluster) that a label selector selects.

        Of each what ``keep`` makes of it, so that a long listing is never in memory as a whole.
        """
        ...

    async def apply(self, body: Json, *, manager: str, subresource: str = "", force: bool = True) -> Json:
        """Server-side apply as ``manager``; the object afterwards. ``force``: fields in ``body`` that others own are
        taken over; else that is Conflicting."""
        ...

    async def patch(self, kind: Kind, namespace: str, name: str, changes: Json) -> Json:
        """A merge patch; with ``metadata.resourceVersion`` in it only if the object is still that one."""
        ...

    async def create(self, kind: Kind, body: Json) -> Json:
        """A new object; Conflicting if there is one of that name."""
        ...
