"""Builds the CustomResourceDefinition from the declarations. A test compares it with the file in ``crds/``.

``python scripts/make_crd.py`` writes the file.
"""

from __future__ import annotations

from typing import Any

from claimq_spec.crd.cel import ROOT_RULES
from claimq_spec.crd.schema import Schema, object_schema
from claimq_spec.manifest.parsing import KIND
from claimq_spec.manifest.queue_spec import QueueSpec

GROUP = "claimq.dev"
VERSION = "v1alpha1"
PLURAL = "reliablequeues"

_ABOUT = (
    "A reliable work queue on Redis or Valkey: worker pods that scale with its length and age, and a sidecar in each "
    "that claims items and hands them to the app."
)


def custom_resource_definition() -> dict[str, Any]:
    """The whole object, as ``kubectl apply`` takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "reliablequeue",
                "shortNames": ["rq"],
                "categories": ["all", "claimq"],
            },
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    root: Schema = {
        "type": "object",
        "description": _ABOUT,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"{GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"{KIND}."},
            "metadata": {"type": "object"},
            "spec": object_schema(QueueSpec, "spec", "What you want of the queue."),
            "status": STATUS,
        },
        "x-kubernetes-validations": [rule.to_schema() for rule in ROOT_RULES],
    }
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.scaling.replicas",
                "statusReplicasPath": ".status.workers.desired",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": _columns(),
    }


def _columns() -> list[dict[str, Any]]:
    return [
        _column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether the queue works."
        ),
        _column("Main", "integer", ".status.items.main", "Items that wait."),
        _column("Busy", "integer", ".status.items.busy", "Items in progress."),
        _column("Failed", "integer", ".status.items.failed", "Items that were given up."),
        _column("Oldest", "string", ".status.oldest", "Age of the oldest item that waits."),
        _column("Workers", "string", ".status.workers.summary", "Workers ready, of those wanted."),
        _column("Delayed", "integer", ".status.items.delayed", "Items whose time has not come.", priority=1),
        _column("Rule", "string", ".status.scaling.rule", "What limits the number of workers.", priority=1),
        _column(
            "Reason",
            "string",
            '.status.conditions[?(@.type=="Ready")].reason',
            "Why it is as it is.",
            priority=1,
        ),
        _column("Age", "date", ".metadata.creationTimestamp", "Since when the queue is there."),
    ]


def _column(name: str, kind: str, path: str, says: str, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": says}
    return column | ({"priority": priority} if priority else {})


def _count(says: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": says}


def _text(says: str) -> Schema:
    return {"type": "string", "description": says}


def _seconds(says: str) -> Schema:
    return {"type": "number", "description": f"{says}, in seconds. Absent: there is none."}


def _object(says: str, **properties: Schema) -> Schema:
    return {"type": "object", "description": says, "properties": properties}


def _time(says: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": says}


_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _text(
            "Ready, RedisReachable, WorkersAvailable, ScalingActive, ScalingLimited, Stalled or Suspended."
        ),
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Whether it holds.",
        },
        "observedGeneration": _count("The metadata.generation that this was found for."),
        "lastTransitionTime": _time("When status changed last."),
        "reason": _text("Why, as one word in CamelCase."),
        "message": _text("Why, as a sentence that says what to do."),
    },
}

STATUS: Schema = _object(
    "What the operator sees and does. It is at most ten seconds old while the operator runs.",
    observedGeneration=_count("The metadata.generation that the operator has acted on."),
    conditions={
        "type": "array",
        "description": "What holds of the queue.",
        "items": _CONDITION,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    items=_object(
        "Items by state.",
        main=_count("Items that wait."),
        busy=_count("Items in progress."),
        delayed=_count("Items whose time has not come."),
        failed=_count("Items that were given up."),
    ),
    ages=_object(
        "Age of the oldest item by state.",
        main=_seconds("Since the oldest item that waits was enqueued"),
        busy=_seconds("Since the oldest item in progress was claimed"),
        failed=_seconds("Since the oldest failed item was given up"),
    ),
    oldest=_text("Age of the oldest item that waits, for people."),
    workers=_object(
        "Worker pods.",
        desired=_count("Workers that there should be."),
        ready=_count("Workers that are ready."),
        busy=_count("Workers that hold items."),
        summary=_text("Workers ready, of those wanted: 2/3."),
    ),
    selector=_text("Label selector of the worker pods, for autoscalers."),
    scaling=_object(
        "The last decision on the number of workers.",
        replicas=_count("Workers that were decided on. Absent: left as they are."),
        rule=_text("The rule that decided, as one word in CamelCase."),
        reason=_text("Why, as a sentence."),
        at=_time("When the decision changed last."),
        inputs={
            "type": "object",
            "description": "What the decision was made from.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        estimates={
            "type": "object",
            "description": "What was learned about arrivals, service and start-up times. "
            "A new operator continues from it.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        demand={
            "type": "object",
            "description": "The arithmetic of the decision: estimates with their errors, and workers by rule.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        limit=_text("Why the target cannot be met, as one word in CamelCase. Absent: it can."),
        needed=_count("Workers that would meet the target if there were no limit."),
    ),
    redis=_object(
        "The server that holds the items.",
        version=_text("Its kind and version, such as valkey 9.1.2."),
        mode=_text("standalone, sentinel or cluster."),
        warnings={
            "type": "array",
            "description": "Settings of the server that weaken the guarantees.",
            "items": {"type": "string"},
        },
    ),
    queueName=_text("Name of the queue on the server."),
)
"""The schema of ``status``; docs/status.md describes it for people."""
