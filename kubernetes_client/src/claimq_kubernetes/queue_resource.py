"""A ReliableQueue object of the API, parsed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from claimq.errors import InvalidSpec, Problem
from claimq_control.decide.observed import DeclaredQueue
from claimq_control.manifest import Manifest, parse_manifest
from claimq_kubernetes.labels import FIELD_MANAGER, FINALIZER, PAUSE, TAKE_OVER, child_labels, child_name
from claimq_kubernetes.port import QUEUES, Json, Kind, part, parts
from claimq_process.timestamps import parse_time

Key = tuple[str, str]
"""Namespace and name of a queue."""
TOO_LARGE = "claimqTooLarge"
"""The field that replaces a spec over its bounds. Its value says what is too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueResource(DeclaredQueue):
    """The spec that a user wants, and the status that the operator wrote last."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    finalizers: tuple[str, ...] = ()
    """Those that the cache keeps, not those of others."""
    deleted_at: float | None = None
    """When its deletion was requested: Unix seconds by the API server's clock."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """``NAMESPACE/NAME``, as logs show it."""
        return f"{self.namespace}/{self.name}"

    @property
    def version(self) -> object:
        """Changes with the object, its spec, and an owner to take the queue over from."""
        return self.uid, self.generation, self.annotations.get(TAKE_OVER)

    @property
    def is_paused(self) -> bool:
        """Whether the annotation claimq.dev/pause-reconcile is set."""
        return self.annotations.get(PAUSE, "").lower() == "true"

    @property
    def has_finalizer(self) -> bool:
        """Whether it has the operator's finalizer."""
        return FINALIZER in self.finalizers

    def controls(self, child: Mapping[str, Any]) -> bool:
        """Whether the object's controller is this queue, by uid."""
        return any(
            owner.get("controller") and owner.get("uid") == self.uid
            for owner in parts(child["metadata"], "ownerReferences")
        )

    def is_left_over(self, child: Mapping[str, Any]) -> bool:
        """Whether the operator made an object without a controller for a queue of this name. Such objects are in a
        namespace that was restored from a backup. Their labels, and the field manager of their spec, show it."""
        metadata = child["metadata"]
        has_controller = any(owner.get("controller") for owner in parts(metadata, "ownerReferences"))
        ours = [entry for entry in parts(metadata, "managedFields") if entry.get("manager") == FIELD_MANAGER]
        has_labels = child_labels(self.name).items() <= part(metadata, "labels").items()
        return (
            not has_controller and has_labels and any("f:spec" in part(entry, "fieldsV1") for entry in ours)
        )

    def child(
        self,
        kind: Kind,
        spec: Json,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> Json:
        """A child object, which the cluster deletes together with the queue. ``labels``: in addition to those of all
        children."""
        owner = {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }
        metadata: Json = {
            "name": child_name(self.name),
            "namespace": self.namespace,
            "labels": {**(labels or {}), **child_labels(self.name)},
            "ownerReferences": [owner],
        }
        if annotations:
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def read_queue(body: Mapping[str, Any]) -> QueueResource:
    """Parses an object of the API. An invalid spec is reported in ``problems``, never raised."""
    parsed: Manifest | None = None
    problems: tuple[Problem, ...] = ()
    if TOO_LARGE in body:
        fix = "put large files and scripts into a ConfigMap that spec.worker.template mounts"
        problems = (Problem("spec", f"{body[TOO_LARGE]}: {fix}"),)
        return _resource(body, None, problems)
    try:
        parsed = parse_manifest({key: value for key, value in body.items() if key != "status"}, stored=True)
    except InvalidSpec as error:
        problems = error.problems
    return _resource(body, parsed, problems)


def _resource(
    body: Mapping[str, Any], parsed: Manifest | None, problems: tuple[Problem, ...]
) -> QueueResource:
    metadata = body["metadata"]
    return QueueResource(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        resource_version=metadata.get("resourceVersion", ""),
        spec=None if parsed is None else parsed.spec,
        problems=problems,
        annotations=part(metadata, "annotations"),
        finalizers=tuple(metadata.get("finalizers", ())),
        deleted_at=parse_time(metadata.get("deletionTimestamp")),
        status=part(body, "status"),
    )
