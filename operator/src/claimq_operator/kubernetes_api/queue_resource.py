"""One ReliableQueue as the cluster holds it: parsed, not validated again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from claimq.errors import InvalidSpec, Problem
from claimq_operator.kubernetes_api.labels import FINALIZER, PAUSE
from claimq_operator.kubernetes_api.port import QUEUES, Json, part, parts
from claimq_operator.kubernetes_api.timestamps import parse_time
from claimq_spec.manifest import Manifest, QueueSpec, parse_manifest

Key = tuple[str, str]
"""Namespace and name of a queue."""


@dataclass(frozen=True, slots=True)
class QueueResource:
    """What a person wants of one queue, and what the operator said of it last."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    spec: QueueSpec | None
    """None when it has mistakes; ``problems`` then holds them."""
    problems: tuple[Problem, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    finalizers: tuple[str, ...] = ()
    deleted_at: float | None = None
    """When its deletion was asked for (Unix seconds by the API server's clock)."""
    status: Json = field(default_factory=dict[str, Any])

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def is_paused(self) -> bool:
        """Whether a person wants the operator's hands off it."""
        return self.annotations.get(PAUSE, "").lower() == "true"

    @property
    def has_finalizer(self) -> bool:
        """Whether its deletion waits for the operator."""
        return FINALIZER in self.finalizers

    def controls(self, child: Mapping[str, Any]) -> bool:
        """Whether an object names this very queue as its controller."""
        return any(
            one.get("controller") and one.get("uid") == self.uid
            for one in parts(child["metadata"], "ownerReferences")
        )

    def reference(self) -> Json:
        """What events about it refer to."""
        return {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }

    def owner(self) -> Json:
        """What its children name as their owner, so that the cluster removes them with it."""
        return {
            "apiVersion": QUEUES.api_version,
            "kind": QUEUES.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": False,
        }


def read_queue(body: Mapping[str, Any]) -> QueueResource:
    """The queue that an object of the API is. Its mistakes are part of the answer, never an exception."""
    metadata = body["metadata"]
    parsed: Manifest | None = None
    problems: tuple[Problem, ...] = ()
    try:
        parsed = parse_manifest({key: value for key, value in body.items() if key != "status"}, stored=True)
    except InvalidSpec as error:
        problems = error.problems
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
