"""Builds the CustomResourceDefinition from the declarations. A test compares it with the file in ``crds/``.

``python scripts/make_crd.py`` writes the file.
"""

from __future__ import annotations

from typing import Any

from claimq_control.crd.cel import ROOT_RULES
from claimq_control.crd.schema import Schema, object_schema
from claimq_control.manifest.parsing import KIND
from claimq_control.manifest.queue_spec import QueueSpec
from claimq_process.names import VERSION_LABEL
from claimq_process.release import release_labels

GROUP = "claimq.dev"
VERSION = "v1alpha1"
PLURAL = "reliablequeues"

_ABOUT = (
    "A reliable work queue on Redis or Valkey, with worker pods that scale with the length and age of the queue. A "
    "sidecar in each pod claims items for the app."
)


def custom_resource_definition() -> dict[str, Any]:
    """The whole object, as ``kubectl apply`` takes it."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}", "labels": release_labels(VERSION_LABEL)},
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
            "spec": object_schema(QueueSpec, "spec", "The desired state of the queue."),
            # Below every generation, so that a new object does not look as if the operator had acted on it.
            "status": {**STATUS, "default": {"observedGeneration": -1}},
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
            "Ready",
            "string",
            '.status.conditions[?(@.type=="Ready")].status',
            "Whether the queue is working.",
        ),
        _column(
            "Reason",
            "string",
            '.status.conditions[?(@.type=="Ready")].reason',
            "Why it is ready or not: Working, or what a user should know.",
        ),
        _column("Main", "integer", ".status.items.main", "Waiting items."),
        _column("Busy", "integer", ".status.items.busy", "Items in progress."),
        _column("Failed", "integer", ".status.items.failed", "Items that failed permanently."),
        _column("Oldest", "string", ".status.oldest", "Age of the oldest waiting item."),
        _column("Workers", "string", ".status.workers.summary", "Ready and desired workers."),
        _column("Delayed", "integer", ".status.items.delayed", "Items that are not due yet.", priority=1),
        _column(
            "Rule", "string", ".status.scaling.rule", "The rule behind the number of workers.", priority=1
        ),
        _column("Age", "date", ".metadata.creationTimestamp", "Time since this object was created."),
    ]


def _column(name: str, kind: str, path: str, says: str, priority: int = 0) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": says}
    return column | ({"priority": priority} if priority else {})


def _count(says: str) -> Schema:
    return {"type": "integer", "format": "int64", "description": says}


def _text(says: str) -> Schema:
    return {"type": "string", "description": says}


def _seconds(says: str) -> Schema:
    return {"type": "number", "description": f"{says}, in seconds. Absent if there is no such item."}


def _object(says: str, **properties: Schema) -> Schema:
    return {"type": "object", "description": says, "properties": properties}


def _time(says: str) -> Schema:
    return {"type": "string", "format": "date-time", "description": says}


_CONDITION: Schema = {
    "type": "object",
    "required": ["type", "status", "reason", "message", "lastTransitionTime"],
    "properties": {
        "type": _text(
            "Ready, RedisReachable, WorkersAvailable, ScalingActive, ScalingLimited, Stalled, Suspended, "
            "Progressing, PauseForgotten, Full, NoisyNeighbour or OperatorConflict."
        ),
        "status": {
            "type": "string",
            "enum": ["True", "False", "Unknown"],
            "description": "Status of the condition.",
        },
        "observedGeneration": _count("The metadata.generation for which the condition was computed."),
        "lastTransitionTime": _time("When status last changed."),
        "reason": _text("Reason for the status, as one word in CamelCase."),
        "message": _text("Explanation of the status, with the fix if one is needed."),
    },
}

STATUS: Schema = _object(
    "The observed state of the queue. At most ten seconds old while the operator is running.",
    observedGeneration=_count(
        "The metadata.generation that the operator last acted on; -1 before it has acted on the object."
    ),
    conditions={
        "type": "array",
        "description": "Conditions of the queue.",
        "items": _CONDITION,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    },
    items=_object(
        "Items by state.",
        main=_count("Waiting items."),
        busy=_count("Items in progress."),
        delayed=_count("Items that are not due yet."),
        failed=_count("Items that failed permanently."),
    ),
    waiting=_object(
        "Items of main and delayed by what they wait for.",
        notDue=_count("Items that are not due yet."),
        paused=_count("Items that wait for the end of a pause."),
        keyBusy=_count("Items that wait for their keys."),
        limit=_count("Items that a limit holds back."),
        ready=_count("Items that wait for a worker, or for those before them."),
    ),
    ages=_object(
        "Age of the oldest item by state.",
        main=_seconds("Time since the oldest waiting item was enqueued"),
        busy=_seconds("Time since the oldest item in progress was claimed"),
        failed=_seconds("Time since the oldest failed item failed"),
    ),
    oldest=_text("Age of the oldest waiting item, for display."),
    workers=_object(
        "Worker pods.",
        desired=_count("Desired number of workers."),
        ready=_count("Number of ready workers."),
        busy=_count("Number of workers that hold claims."),
        summary=_text("Ready and desired workers, such as 2/3; 3/3 +1: one more than desired is ready."),
    ),
    selector=_text("Label selector of the worker pods, for autoscalers."),
    scaling=_object(
        "The last decision on the number of workers.",
        replicas=_count("Decided number of workers. Absent if the number is left unchanged."),
        rule=_text("The rule that determined the number, as one word in CamelCase."),
        reason=_text("Explanation of the decision."),
        at=_time("When the decision last changed."),
        inputs={
            "type": "object",
            "description": "The observed values that the decision is based on: main, busy, delayedDue, oldestAge, "
            "replicas, ready, starting, busyWorkers.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        estimates={
            "type": "object",
            "description": "Estimates of the arrival rate, service time and start-up time. "
            "A new operator process continues from them.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        demand={
            "type": "object",
            "description": "The calculation of the decision. Estimates, each with one standard deviation as ...Error: "
            "arrivalsPerSecond, secondsPerItem, secondsToStart. Workers by rule: forDeadlines (every waiting item "
            "starts in time), forArrivals (keep up), forItemsPerReplica. mostUseful: more would be idle. wanted: "
            "before limits.",
            "x-kubernetes-preserve-unknown-fields": True,
        },
        limit=_text("Why the target cannot be met, as one word in CamelCase. Absent if it can be met."),
        needed=_count("Number of workers that would meet the target without a limit."),
    ),
    redis=_object(
        "The server that holds the items.",
        version=_text("Kind and version of the server, such as valkey 9.1.2."),
        mode=_text("Mode of the server: standalone, sentinel or cluster."),
        warnings={
            "type": "array",
            "description": "Settings of the server that weaken the guarantees.",
            "items": {"type": "string"},
        },
    ),
    queueName=_text("Name of the queue on the server."),
)
"""The schema of ``status``; docs/reference/status.md describes it for people."""
