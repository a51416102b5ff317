"""Cache of watched objects: queues, their Deployments and pods.

The next resync repairs the effect of a missed event. Events out of order are harmless: an older version of an object
never replaces a newer one, and an object that was deleted never comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from claimq_control.workers import Termination
from claimq_kubernetes.kept import kept_metadata, kept_part, too_much
from claimq_kubernetes.labels import FINALIZER, PAUSE, TAKE_OVER, child_name
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.queue_resource import TOO_LARGE, Key, QueueResource
from claimq_kubernetes.terminations import terminations_of
from claimq_kubernetes.worker_pods import queue_of, queue_of_worker, trim_pod
from claimq_process.names import COMPONENT_LABEL, QUEUE_LABEL

MAX_UNHANDLED_TERMINATIONS = 1000
"""Terminations of deleted pods that are kept for each queue until a pass has handled them."""
_MAX_DELETED = 10_000
_MOST_OWNERS = 10
"""Field managers of a number of replicas that are kept. More of them can only agree on it."""


class Cache:
    """The last known state of all watched objects."""

    def __init__(self, changed: Callable[[Key], None]) -> None:
        """``changed`` is called with a queue's key when one of its objects has changed."""
        self._changed = changed
        self._queues: dict[Key, Json] = {}
        self._deployments: dict[Key, Json] = {}
        self._pods: dict[Key, dict[str, Json]] = {}
        self._unhandled: dict[Key, dict[str, Termination]] = {}
        self._deleted: dict[str, Json] = {}
        """By uid, the objects that were deleted last: a list or a reply that is older may still have them."""

    def queues(self) -> list[Key]:
        """The keys of all queues."""
        return list(self._queues)

    def queue(self, key: Key) -> Json | None:
        """A queue's object; None if it does not exist."""
        return self._queues.get(key)

    def deployment(self, key: Key) -> Json | None:
        """The Deployment with the name of the queue's worker Deployment. The queue may not own it."""
        return self._deployments.get(key)

    def deployment_of(self, resource: QueueResource) -> Json | None:
        """The worker Deployment that the queue owns; None if there is none."""
        deployment = self.deployment(resource.key)
        return deployment if deployment is not None and resource.controls(deployment) else None

    def pods(self, key: Key) -> list[Json]:
        """The worker pods of a queue, with the fields that :func:`trim_pod` keeps."""
        return list(self._pods.get(key, {}).values())

    def terminations(self, key: Key) -> tuple[Termination, ...]:
        """Terminated containers of the queue's pods, including unhandled ones of deleted pods."""
        by_container = {
            termination.container_id: termination
            for pod in self.pods(key)
            for termination in terminations_of(pod)
        }
        return tuple({**self._unhandled.get(key, {}), **by_container}.values())

    def mark_handled(self, terminations: Iterable[Termination], key: Key) -> None:
        """A pass has returned the claims of these containers; the terminations of deleted pods are dropped."""
        unhandled = self._unhandled.get(key, {})
        for termination in terminations:
            unhandled.pop(termination.container_id, None)

    def update_queue(self, body: Json, *, is_gone: bool = False) -> None:
        """Updates a queue from an event or an API response."""
        metadata = body["metadata"]
        key = (metadata["namespace"], metadata["name"])
        cached = self._queues.get(key)
        if is_gone:
            self._remember_deleted(body)
            if cached is None or cached["metadata"]["uid"] == metadata["uid"]:
                self._queues.pop(key, None)
                self._unhandled.pop(key, None)
                self._changed(key)
            return
        if self._is_old(body, cached):
            return
        if cached is not None and cached["metadata"]["uid"] != metadata["uid"]:
            # A new object of the same name, and the deletion of the previous one was missed: drop its state.
            self.update_queue(cached, is_gone=True)
            cached = None
        self._queues[key] = trim_queue(body)
        if cached is None or _desired(cached) != _desired(body):
            self._changed(key)

    def update_deployment(self, body: Json, *, is_gone: bool = False) -> None:
        """Updates a worker Deployment from an event or an API response."""
        key = queue_of(body)
        cached = None if key is None else self._deployments.get(key)
        if key is None or not _has_child_name(body) or self._is_old(body, cached):
            return
        if is_gone:
            self._remember_deleted(body)
            self._deployments.pop(key, None)
        else:
            self._deployments[key] = trim_deployment(body)
        self._changed(key)

    def update_pod(self, body: Json, *, is_gone: bool = False) -> None:
        """Updates a worker pod from an event. The last status of a deleted pod may still report terminations.

        A pod that no ReplicaSet of a worker Deployment controls is ignored, whatever its labels are.
        """
        key = queue_of_worker(body)
        if key is None:
            return
        pods = self._pods.setdefault(key, {})
        uid = body["metadata"]["uid"]
        cached = pods.get(uid)
        if is_gone:
            self._remember_deleted(body)
            last = [trim_pod(body), *([cached] if cached is not None else [])]
            self._keep_terminations(
                key, (termination for pod in last for termination in terminations_of(pod))
            )
            pods.pop(uid, None)
        elif not self._is_old(body, cached):
            if cached is not None:
                self._keep_overwritten(key, cached, body)
            pods[uid] = trim_pod(body)
        else:
            return
        self._changed(key)

    def uids(self) -> frozenset[str]:
        """The uids of all objects. A list that is read from now on lacks one of them only if it was deleted."""
        return frozenset(_by_uid((*self._queues.values(), *self._deployments.values(), *self._all_pods())))

    def _all_pods(self) -> list[Json]:
        return [pod for pods in self._pods.values() for pod in pods.values()]

    def resync(
        self,
        queues: Iterable[Json],
        deployments: Iterable[Json],
        pods: Iterable[Json],
        *,
        before: frozenset[str],
        unknown: Collection[str] = (),
    ) -> None:
        """Replaces the cache by complete lists. ``before``: the :meth:`uids` from before they were read; an object that
        was created since then may not be in them, and stays. Objects in the ``unknown`` namespaces, which were not
        listed, stay too."""

        def is_missing(body: Json, uids: Collection[str]) -> bool:
            uid, namespace = body["metadata"]["uid"], body["metadata"]["namespace"]
            return uid in before and uid not in uids and namespace not in unknown

        listed_queues = _by_uid(queues)
        for key in [key for key, body in self._queues.items() if is_missing(body, listed_queues)]:
            self.update_queue(self._queues[key], is_gone=True)
        for body in listed_queues.values():
            self.update_queue(body)
        listed_deployments = _by_uid(filter(_has_child_name, deployments))
        for key in [key for key, body in self._deployments.items() if is_missing(body, listed_deployments)]:
            self._remember_deleted(self._deployments.pop(key))
            self._changed(key)
        for body in listed_deployments.values():
            self.update_deployment(body)
        self._resync_pods(_by_uid(pods), is_missing)
        # Pods outlive their queue; no pass will handle the terminations of these.
        for key in [key for key in self._unhandled if key not in self._queues and key[0] not in unknown]:
            del self._unhandled[key]

    def _resync_pods(
        self, bodies: Mapping[str, Json], is_missing: Callable[[Json, Collection[str]], bool]
    ) -> None:
        for cached in self._all_pods():
            if is_missing(cached, bodies):
                self.update_pod(cached, is_gone=True)
        for body in bodies.values():
            self.update_pod(body)
        for key in [key for key, pods in self._pods.items() if not pods]:
            del self._pods[key]

    def _is_old(self, body: Json, cached: Json | None) -> bool:
        """Whether a version that is at least as new is known, or was when the object was deleted."""
        deleted = self._deleted.get(body["metadata"]["uid"])
        return any(version is not None and not _is_newer(body, version) for version in (cached, deleted))

    def _remember_deleted(self, body: Json) -> None:
        metadata = body["metadata"]
        identity = {name: metadata[name] for name in ("uid", "resourceVersion") if name in metadata}
        self._deleted[metadata["uid"]] = {"metadata": identity}
        if len(self._deleted) > _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]

    def _keep_overwritten(self, key: Key, cached: Json, body: Json) -> None:
        """A status has only the last run of each sidecar, and only that run's name proves its termination."""
        present = {termination.container_id for termination in terminations_of(body)}
        runs = (
            termination
            for termination in terminations_of(cached)
            if termination.is_sidecar and termination.container_id not in present
        )
        self._keep_terminations(key, runs)

    def _keep_terminations(self, key: Key, terminations: Iterable[Termination]) -> None:
        unhandled = self._unhandled.setdefault(key, {})
        for termination in terminations:
            unhandled.setdefault(termination.container_id, termination)
        while len(unhandled) > MAX_UNHANDLED_TERMINATIONS:
            del unhandled[next(iter(unhandled))]


def _by_uid(bodies: Iterable[Json]) -> dict[str, Json]:
    return {body["metadata"]["uid"]: body for body in bodies}


def _has_child_name(body: Mapping[str, Any]) -> bool:
    """Whether the Deployment has the name of the queue's child. Others may have the same label."""
    key = queue_of(body)
    return key is not None and body["metadata"]["name"] == child_name(key[1])


def trim_queue(body: Mapping[str, Any]) -> Json:
    """The fields of a queue that the operator uses. A spec or status over its bound is left out."""
    metadata = kept_metadata(body, annotations=(PAUSE, TAKE_OVER), finalizers=(FINALIZER,))
    trimmed: Json = {**body, "metadata": metadata}
    if excess := too_much(body.get("spec")):
        trimmed |= {"spec": {}, TOO_LARGE: excess}
    if too_much(body.get("status")):
        del trimmed["status"]  # the next pass writes it
    return trimmed


def trim_deployment(body: Mapping[str, Any]) -> Json:
    """The fields of a worker Deployment to keep; the pod template is derived from the queue."""
    metadata, spec = body["metadata"], part(body, "spec")
    owners: list[Json] = [
        {"manager": entry.get("manager"), "fieldsV1": {"f:spec": {"f:replicas": {}}}}
        for entry in parts(metadata, "managedFields")
        if "f:replicas" in part(part(entry, "fieldsV1"), "f:spec")
    ]
    kept_fields = kept_metadata(body, labels=(QUEUE_LABEL, COMPONENT_LABEL))
    return {
        "metadata": {**kept_fields, "managedFields": owners[:_MOST_OWNERS]},
        "spec": {name: spec[name] for name in ("replicas", "paused") if name in spec},
        "status": kept_part(body, "status"),
    }


def _is_newer(body: Mapping[str, Any], cached: Mapping[str, Any]) -> bool:
    """Compares resource versions, which grow for one object. A new object of the same name counts as newer."""
    new, old = body["metadata"], cached["metadata"]
    if new["uid"] != old["uid"]:
        return True
    versions = new.get("resourceVersion", ""), old.get("resourceVersion", "")
    if all(version.isdigit() for version in versions):
        return int(versions[0]) > int(versions[1])
    return bool(versions[0] != versions[1])


def _desired(body: Mapping[str, Any]) -> tuple[Any, ...]:
    """The parts that users change, as opposed to the status, which the operator writes."""
    metadata = body["metadata"]
    return (
        metadata["uid"],
        metadata.get("generation"),
        metadata.get("deletionTimestamp"),
        metadata.get("annotations"),
        metadata.get("finalizers"),
    )
