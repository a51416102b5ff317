"""What a program of many tenants keeps of their objects in memory, within bounds: a tenant chooses the size. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from claimq_kubernetes.port import Json, part, parts
from claimq_process.json_levels import levels_of

LARGEST_PART = 64 * 1024
"""Bytes of JSON of a spec or a status."""
MOST_VALUES = 5000
"""Values of a spec or a status, of all levels. A list of empty lists takes 24 times the memory of its JSON."""
_LARGEST_TEXT = 2048
"""Characters of an annotation, and of the JSON of an owner."""
_FIELDS = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"
)  # fmt: skip


def kept_metadata(
    body: Mapping[str, Any],
    *,
    labels: Collection[str] = (),
    annotations: Collection[str] = (),
    finalizers: Collection[str] = (),
) -> Json:
    """The metadata of an object to keep: the named labels, annotations and finalizers, and its controller. An object
    has at most one controller."""
    metadata: Mapping[str, Any] = body["metadata"]
    fields: Json = {
        "labels": {name: text for name, text in part(metadata, "labels").items() if name in labels},
        "annotations": {
            name: text
            for name, text in part(metadata, "annotations").items()
            if name in annotations and len(text) <= _LARGEST_TEXT
        },
        "finalizers": [
            finalizer for finalizer in metadata.get("finalizers") or () if finalizer in finalizers
        ],
        "ownerReferences": [
            owner
            for owner in parts(metadata, "ownerReferences")
            if owner.get("controller") and json_size(owner) <= _LARGEST_TEXT
        ],
    }
    return {
        **{name: metadata[name] for name in _FIELDS if name in metadata},
        **{name: value for name, value in fields.items() if value},
    }


def kept_part(body: Mapping[str, Any], name: str) -> Json:
    """The spec or the status of an object; empty if it has :func:`too_much`."""
    section = part(body, name)
    return {} if too_much(section) else section


def too_much(value: object) -> str:
    """What exceeds :data:`LARGEST_PART` or :data:`MOST_VALUES`, with the bound; an empty text for nothing."""
    if (size := json_size(value)) > LARGEST_PART:
        return f"has {size:,} bytes; give at most {LARGEST_PART:,}"
    if (count := sum(map(len, levels_of(value)))) > MOST_VALUES:
        return f"has {count:,} values; give at most {MOST_VALUES:,}"
    return ""


def json_size(value: object) -> int:
    """Bytes of the JSON text."""
    return len(json.dumps(value)) if value else 0
