"""What the watches and listings told last: queues, their Deployments, their pods. In memory; the cluster is the truth.

A missed event costs one resync, an event out of order nothing: an older version never replaces a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from claimq_operator.kubernetes_api.labels import child_name
from claimq_operator.kubernetes_api.port import Json, part, parts
from claimq_operator.kubernetes_api.queue_resource import Key, QueueResource
from claimq_operator.kubernetes_api.terminations import Termination, deaths_of
from claimq_operator.kubernetes_api.worker_pods import queue_of, trimmed

MOST_LATE_DEATHS = 1000
"""Deaths in pods that are gone already, remembered for each queue until a pass has dealt with them."""


class Cache:
    """The last known state of everything the operator watches."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        """``changed`` is called with a queue's key when something about it is news."""
        self._changed = changed
        self._queues: dict[Key, Json] = {}
        self._deployments: dict[Key, Json] = {}
        self._pods: dict[Key, dict[str, Json]] = {}
        self._late: dict[Key, dict[str, Termination]] = {}

    def queues(self) -> list[Key]:
        """All queues that are there."""
        return list(self._queues)

    def queue(self, key: Key) -> Json | None:
        """The object of a queue."""
        return self._queues.get(key)

    def deployment(self, key: Key) -> Json | None:
        """The Deployment that has the name of a queue's worker Deployment; it may be another's."""
        return self._deployments.get(key)

    def deployment_of(self, resource: QueueResource) -> Json | None:
        """The worker Deployment of a queue; None while it has none of its own."""
        found = self.deployment(resource.key)
        return found if found is not None and resource.controls(found) else None

    def pods(self, key: Key) -> list[Json]:
        """The worker pods of a queue, trimmed."""
        return list(self._pods.get(key, {}).values())

    def deaths(self, key: Key) -> tuple[Termination, ...]:
        """The proven deaths of containers of a queue's pods, also of pods that are gone meanwhile."""
        found = {death.container_id: death for pod in self.pods(key) for death in deaths_of(pod)}
        return tuple({**self._late.get(key, {}), **found}.values())

    def dealt_with(self, deaths: Iterable[Termination], key: Key) -> None:
        """A pass has given back what these held; those of pods that are gone need not be kept."""
        late = self._late.get(key, {})
        for death in deaths:
            late.pop(death.container_id, None)

    def see_queue(self, body: Json, *, is_gone: bool = False) -> None:
        """An event or a reply about a queue."""
        metadata = body["metadata"]
        key = (metadata["namespace"], metadata["name"])
        known = self._queues.get(key)
        if is_gone:
            if known is None or known["metadata"]["uid"] == metadata["uid"]:
                self._queues.pop(key, None)
                self._late.pop(key, None)
                self._changed(key)
            return
        if known is not None and not _is_newer(body, known):
            return
        if known is not None and known["metadata"]["uid"] != metadata["uid"]:
            # Another of the same name, and no event told of the first one's end: nothing of that holds for this one.
            self.see_queue(known, is_gone=True)
            known = None
        self._queues[key] = trimmed_queue(body)
        if known is None or _asked(known) != _asked(body):
            self._changed(key)

    def see_deployment(self, body: Json, *, is_gone: bool = False) -> None:
        """An event or a reply about a Deployment with our labels."""
        key = queue_of(body)
        known = None if key is None else self._deployments.get(key)
        if key is None or not _has_childs_name(body) or (known is not None and not _is_newer(body, known)):
            return
        if is_gone:
            self._deployments.pop(key, None)
        else:
            self._deployments[key] = trimmed_deployment(body)
        self._changed(key)

    def see_pod(self, body: Json, *, is_gone: bool = False) -> None:
        """An event about a worker pod. The last status of a pod that is gone may still prove deaths."""
        key = queue_of(body)
        if key is None:
            return
        pods = self._pods.setdefault(key, {})
        uid = body["metadata"]["uid"]
        known = pods.get(uid)
        if is_gone:
            self._keep_deaths(key, [trimmed(body), *([known] if known is not None else [])])
            pods.pop(uid, None)
        elif known is None or _is_newer(body, known):
            pods[uid] = trimmed(body)
        else:
            return
        self._changed(key)

    def resync(
        self,
        queues: Iterable[Json],
        deployments: Iterable[Json],
        pods: Iterable[Json],
        *,
        unknown: Collection[str] = (),
    ) -> None:
        """Whole listings: what is in none of them is gone, but in the namespaces that are ``unknown``."""
        listed = {(body["metadata"]["namespace"], body["metadata"]["name"]): body for body in queues}
        for key in [key for key in self._queues if key not in listed and key[0] not in unknown]:
            self.see_queue(self._queues[key], is_gone=True)
        for body in listed.values():
            self.see_queue(body)
        there = {queue_of(body): body for body in deployments if _has_childs_name(body)}
        for key in [key for key in self._deployments if key not in there and key[0] not in unknown]:
            del self._deployments[key]
            self._changed(key)
        for body in there.values():
            self.see_deployment(body)
        self._resync_pods(list(pods), unknown)

    def _resync_pods(self, bodies: list[Json], unknown: Collection[str]) -> None:
        uids = {body["metadata"]["uid"] for body in bodies}
        for known in [pod for pods in self._pods.values() for pod in pods.values()]:
            if known["metadata"]["uid"] not in uids and known["metadata"]["namespace"] not in unknown:
                self.see_pod(known, is_gone=True)
        for body in bodies:
            self.see_pod(body)
        for key in [key for key, pods in self._pods.items() if not pods]:
            del self._pods[key]
        # Pods go after their queue: their deaths have nobody to deal with them.
        for key in [key for key in self._late if key not in self._queues and key[0] not in unknown]:
            del self._late[key]

    def _keep_deaths(self, key: Key, last: Iterable[Json]) -> None:
        late = self._late.setdefault(key, {})
        for body in last:
            for death in deaths_of(body):
                late.setdefault(death.container_id, death)
        while len(late) > MOST_LATE_DEATHS:
            del late[next(iter(late))]


def _has_childs_name(body: Mapping[str, Any]) -> bool:
    """Another Deployment may have the label as well: it must not hide the queue's."""
    key = queue_of(body)
    return key is not None and body["metadata"]["name"] == child_name(key[1])


def trimmed_queue(body: Mapping[str, Any]) -> Json:
    """What is kept in memory of a queue: all but who wrote which field, which is as long as the rest."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    return {**body, "metadata": metadata}


def trimmed_deployment(body: Mapping[str, Any]) -> Json:
    """What is kept in memory of a worker Deployment: its pods' template is known from the queue."""
    metadata, spec = body["metadata"], part(body, "spec")
    kept = ("name", "namespace", "uid", "resourceVersion", "generation", "labels", "ownerReferences")
    owners: list[Json] = [
        {"manager": entry.get("manager"), "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        for entry in parts(metadata, "managedFields")
        if "f:replicas" in part(part(entry, "fieldsV1"), "f:spec")
    ]
    return {
        "metadata": {**{name: metadata[name] for name in kept if name in metadata}, "managedFields": owners},
        "spec": {"replicas": spec["replicas"]} if "replicas" in spec else {},
        "status": part(body, "status"),
    }


def _is_newer(body: Mapping[str, Any], known: Mapping[str, Any]) -> bool:
    """By the resource version of one object, which grows; another object of the same name always counts as newer."""
    new, old = body["metadata"], known["metadata"]
    if new["uid"] != old["uid"]:
        return True
    versions = new.get("resourceVersion", ""), old.get("resourceVersion", "")
    if all(version.isdigit() for version in versions):
        return int(versions[0]) > int(versions[1])
    return bool(versions[0] != versions[1])


def _asked(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """What people (or the scale subresource) changed, as against our own writes to the status."""
    metadata = body["metadata"]
    return (
        metadata["uid"],
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        metadata.get("annotations"),
        metadata.get("finalizers"),
    )
