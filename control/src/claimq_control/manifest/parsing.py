"""Parses a whole manifest from the mapping that a YAML or JSON reader returned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import cast

from claimq.errors import InvalidSpec
from claimq_control.manifest.queue_spec import QueueSpec
from claimq_control.manifest.reading import Reading, shown
from claimq_control.manifest.redis_spec import RedisSpec
from claimq_control.manifest.rules import apply_rules
from claimq_process.names import API_VERSION

KIND = "ReliableQueue"
DEFAULT_NAMESPACE = "default"

CHILD_SUFFIX = "-worker"
"""The worker Deployment of the queue ``thumbnails`` is called ``thumbnails-worker``."""
LONGEST_LABEL = 63
LONGEST_NAME = LONGEST_LABEL - len(CHILD_SUFFIX) - len("-0123456789") - len("-01234")
"""A pod's name is that of its Deployment, a hyphen, up to ten characters, a hyphen and five; it is a host name too."""

_LABEL = re.compile("[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One ReliableQueue as the user wrote it, checked."""

    name: str
    namespace: str
    spec: QueueSpec


def parse_manifest(
    document: Mapping[str, object],
    *,
    local: bool = False,
    stored: bool = False,
    redis_url: str | None = None,
    command: Sequence[str] | None = None,
) -> Manifest:
    """The manifest in ``document``. Raises :class:`claimq.errors.InvalidSpec` with every problem at once.

    ``local``: for one machine without a cluster. Then ``redis`` and ``worker.image`` may be absent, ``worker.command``
    may not; a Secret that ``spec.redis`` names is not there, so the caller provides a server as if ``redis`` were
    absent. ``redis_url`` stands in for ``spec.redis`` (which is still checked) and ``command`` for the worker's command
    and arguments.

    ``stored``: an object of an API server, which keeps no field but those of its definition. One that is unknown here
    is of a later release, and is ignored.
    """
    reading = Reading(
        root=QueueSpec,
        not_required=frozenset(("spec.redis", "spec.worker.image")) if local else frozenset(),
        leaves_unknown=stored,
    )
    fields = _top(reading, document)
    name, namespace = _metadata(reading, fields.get("metadata"))
    raw = fields.get("spec")
    if raw is None:
        reading.add("spec", "is missing; give an object with at least redis and worker")
        spec = QueueSpec()
    else:
        spec = reading.read_object(QueueSpec, raw, "spec")
        apply_rules(spec, reading)
    if redis_url is not None:
        spec = replace(spec, redis=RedisSpec(url=redis_url))
    if command is not None:
        spec = replace(spec, worker=replace(spec.worker, command=tuple(command), args=()))
    if local and raw is not None:
        _local(reading, spec)
    if reading.problems:
        raise InvalidSpec(reading.problems)
    spec = replace(
        spec,
        queue_name=spec.queue_name
        or (name if local and not namespace else f"{namespace or DEFAULT_NAMESPACE}.{name}"),
        scaling=replace(spec.scaling, suspended=spec.suspend),
    )
    return Manifest(name, namespace or DEFAULT_NAMESPACE, spec)


def _top(reading: Reading, document: object) -> Mapping[object, object]:
    if not isinstance(document, Mapping):
        reading.add("document", f"is {shown(document)}; give one {KIND}: apiVersion, kind, metadata and spec")
        raise InvalidSpec(reading.problems)
    fields = cast("Mapping[object, object]", document)
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if fields.get(field) != expected:
            problem = "is missing" if fields.get(field) is None else f"is {shown(fields[field])}"
            reading.add(field, f"{problem}; write {field}: {expected}")
    for key in fields:
        if key not in _TOP:
            reading.add(str(key), f"is not a field; {_where(key)}")
    return fields


def _where(key: object) -> str:
    near = get_close_matches(str(key), _TOP, n=1, cutoff=0.7)
    return (
        f"did you mean {near[0]}?"
        if near
        else "the fields are apiVersion, kind, metadata and spec: did you mean to indent it?"
    )


def _metadata(reading: Reading, metadata: object) -> tuple[str, str]:
    if not isinstance(metadata, Mapping):
        problem = "is missing" if metadata is None else f"is {shown(metadata)}"
        reading.add("metadata", f"{problem}; give an object with a name")
        return "", ""
    fields = cast("Mapping[object, object]", metadata)
    return _label(reading, fields, "name", LONGEST_NAME), _label(reading, fields, "namespace", LONGEST_LABEL)


def _label(reading: Reading, fields: Mapping[object, object], key: str, longest: int) -> str:
    label, field = fields.get(key), f"metadata.{key}"
    if label is None:
        if key == "name":
            reading.add(field, "is missing; give the queue a name")
        return ""
    if not isinstance(label, str) or not _LABEL.fullmatch(label):
        reading.add(
            field,
            f"is {shown(label)}; give lower-case letters, digits and '-', a letter or digit first and last",
        )
        return ""
    if len(label) > longest:
        why = (
            f" (its pods' names add {LONGEST_LABEL - longest} and end at {LONGEST_LABEL})"
            if key == "name"
            else ""
        )
        reading.add(field, f"has {len(label)} characters; give at most {longest}{why}")
        return ""
    return label


def _local(reading: Reading, spec: QueueSpec) -> None:
    if not spec.worker.command and not reading.has_problem_in("spec.worker.command"):
        reading.add(
            "spec.worker.command",
            "is missing; `claimq up` runs a program, not an image: give the program and its arguments, or --command",
        )
