"""Builds the structural schema of ``spec`` for the CRD: types, defaults, bounds, descriptions.

Rules for single fields use the API server's own keywords where their messages are good (types, enumerations, bounds of
numbers), and :mod:`claimq_control.crd.cel_values` elsewhere. Rules between fields are in :mod:`claimq_control.crd.cel`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from claimq_control.crd.cel import FIELD_RULES, OBJECT_RULES
from claimq_control.crd.cel_rule import CelRule
from claimq_control.crd.cel_values import duration_bounds, form_of_text, quantity, size_bounds
from claimq_control.manifest.declaring import Declared, Kind, declared_fields
from claimq_control.manifest.pod_template import (
    CONTAINER,
    CONTAINER_KEYS,
    KEY_DEFAULTS,
    POD,
    POD_KEYS,
    POD_PATH,
    Shape,
)
from claimq_process.names import APP_CONTAINER

Schema = dict[str, Any]

_LONGEST_DURATION = 40
_LONGEST_QUANTITY = 24
_MOST_ENTRIES = 64


def object_schema(spec: type[Any], path: str, description: str = "") -> Schema:
    """The schema of one declared object and all below it. ``path`` as in the manifest: ``spec.scaling``."""
    schema: Schema = {"type": "object"}
    if description:
        schema["description"] = description
    schema["properties"] = {
        field.name: _field_schema(field.declared, f"{path}.{field.name}") for field in declared_fields(spec)
    }
    if required := [field.name for field in declared_fields(spec) if field.declared.required]:
        schema["required"] = required
    if rules := OBJECT_RULES.get(path):
        schema["x-kubernetes-validations"] = [rule.to_schema() for rule in rules]
    return schema


def _field_schema(declared: Declared, path: str) -> Schema:
    schema: Schema = {"description": declared.describe(), **_typed(declared, path)}
    if declared.default is not None:
        schema["default"] = declared.default
    elif not declared.required and (whole := _defaults_below(declared)):
        schema["default"] = whole
    rules: list[Schema] = [rule.to_schema() for rule in FIELD_RULES.get(path, ())]
    rules += schema.pop("x-kubernetes-validations", [])
    if rules:
        schema["x-kubernetes-validations"] = rules
    return schema


def _typed(declared: Declared, path: str) -> Schema:
    match declared.kind:
        case Kind.OBJECT:
            assert declared.nested is not None  # noqa: S101 - the declaration's own promise
            return object_schema(declared.nested, path)
        case Kind.OBJECTS:
            assert declared.nested is not None  # noqa: S101 - the declaration's own promise
            items = object_schema(declared.nested, f"{path}[]")
            return {
                "type": "array",
                "maxItems": _most_entries(declared),
                "items": items,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        case Kind.TEXTS:
            return {
                "type": "array",
                "maxItems": _most_entries(declared),
                "items": {"type": "string"},
                "x-kubernetes-list-type": "atomic",
            }
        case Kind.FREE_LIST:
            items = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            return {
                "type": "array",
                "maxItems": _most_entries(declared),
                "items": items,
                "x-kubernetes-list-type": "atomic",
            }
        case Kind.TEXT_MAP:
            return _map(_ruled({"type": "string"}, *FIELD_RULES.get(f"{path}{{}}", ())))
        case Kind.QUANTITY_MAP:
            entry: Schema = {"x-kubernetes-int-or-string": True, "maxLength": _LONGEST_QUANTITY}
            return _map(_ruled(entry, quantity(declared)), most=8)
        case Kind.FREE:
            return _POD if path == POD_PATH else dict(_FREE)
        case _:
            return _scalar(declared)


def _scalar(declared: Declared) -> Schema:
    match declared.kind:
        case Kind.BOOLEAN:
            return {"type": "boolean"}
        case Kind.INTEGER:
            return {"type": "integer", "format": "int64", "minimum": declared.least, "maximum": declared.most}
        case Kind.NUMBER:
            return {"type": "number", "minimum": declared.least, "maximum": declared.most}
        case Kind.CHOICE:
            return {"type": "string", "enum": list(declared.choices)}
        case Kind.DURATION:
            return _ruled({"type": "string", "maxLength": _LONGEST_DURATION}, duration_bounds(declared))
        case Kind.SIZE:
            return _ruled({"x-kubernetes-int-or-string": True, "maxLength": 16}, size_bounds(declared))
        case _ if declared.pattern is None:
            return {"type": "string"}
        case _:
            return _ruled({"type": "string", "maxLength": declared.longest or 253}, form_of_text(declared))


def _ruled(schema: Schema, *rules: CelRule) -> Schema:
    return schema | ({"x-kubernetes-validations": [rule.to_schema() for rule in rules]} if rules else {})


def _map(values: Schema, most: int = _MOST_ENTRIES) -> Schema:
    return {"type": "object", "maxProperties": most, "additionalProperties": values}


def _most_entries(declared: Declared) -> int:
    return int(declared.most or _MOST_ENTRIES)


def _defaults_below(declared: Declared) -> Schema:
    """All defaults of an object whose absence is an object of defaults; rules on it are checked against them."""
    if declared.kind is not Kind.OBJECT or declared.optional or declared.nested is None:
        return {}
    defaults: Schema = {}
    for field in declared_fields(declared.nested):
        if field.declared.default is not None:
            defaults[field.name] = field.declared.default
        elif below := _defaults_below(field.declared):
            defaults[field.name] = below
    return defaults


_FREE: Mapping[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_SHAPES: Mapping[Shape, Schema] = {
    Shape.OBJECT: dict(_FREE),
    Shape.OBJECTS: {"type": "array", "maxItems": 256, "items": dict(_FREE)},
    Shape.TEXT: {"type": "string"},
    Shape.TEXTS: {"type": "array", "maxItems": 256, "items": {"type": "string"}},
    Shape.BOOLEAN: {"type": "boolean"},
    Shape.INTEGER: {"type": "integer", "format": "int64"},
}


def _shaped(shapes: Mapping[str, Shape], keys: Mapping[str, tuple[str, ...]], kind: str) -> Schema:
    """Fields of a pod or container. A null is allowed, and means that the field is not set."""
    description = f"As in a {kind} of Kubernetes."
    return {
        name: {
            **_SHAPES[shape],
            **(_keyed(_FREE, keys[name]) if name in keys else {}),
            "nullable": True,
            "description": description,
        }
        for name, shape in shapes.items()
    }


def _keyed(entry: Mapping[str, Any], keys: tuple[str, ...]) -> Schema:
    """Of a list: no two entries have the same values of the keys."""
    properties = {
        key: {
            "type": "integer" if key == "containerPort" else "string",
            "description": "No two entries may have the same.",
            **({"default": KEY_DEFAULTS[key]} if key in KEY_DEFAULTS else {}),
        }
        for key in keys
    }
    items = {
        **entry,
        "properties": {**properties, **entry.get("properties", {})},
        "required": [key for key in keys if key not in KEY_DEFAULTS],
    }
    return {
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
    }


_CONTAINER: Schema = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {
            "type": "string",
            "maxLength": 63,
            "description": f'Name of the container; "{APP_CONTAINER}" is the app.',
        },
        **_shaped(CONTAINER, CONTAINER_KEYS, "container"),
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
_CONTAINERS: Schema = {"type": "array", "maxItems": 16, **_keyed(_CONTAINER, POD_KEYS["containers"])}
_VOLUME: Schema = {
    **_FREE,
    "properties": {"name": {"type": "string", "maxLength": 63, "description": "Its name."}},
}
_POD: Schema = {
    "type": "object",
    "properties": {
        "terminationGracePeriodSeconds": {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "description": "The pod's grace period in seconds. Default: none (it follows from drainTimeout).",
        },
        "restartPolicy": {
            "type": "string",
            "enum": ["Always"],
            "description": "Workers are always restarted; omit this field.",
        },
        "containers": _CONTAINERS
        | {"description": "Further containers, and fields to merge into the app container."},
        "initContainers": _CONTAINERS | {"description": "Containers that run before the app."},
        "volumes": {
            "type": "array",
            "maxItems": 128,
            **_keyed(_VOLUME, POD_KEYS["volumes"]),
            "description": "Volumes for the containers to mount.",
        },
        **_shaped(POD, POD_KEYS, "pod"),
    },
    "x-kubernetes-preserve-unknown-fields": True,
}
