"""The declarations: complete, consistent with the dataclasses and the library, and what the reference page says."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from claimq.policy import Policy
from claimq_control.manifest import Declared, Kind, QueueSpec, declared_fields, parse_manifest, walk
from claimq_control.manifest.reference import reference_page

PAGE = Path(__file__).parents[3] / "docs" / "manifest.md"
ALL = dict(walk(QueueSpec, "spec"))

# The fields of the CRD, as they were agreed on.
AGREED = [
    "redis.url",
    "redis.secretRef.name",
    "redis.secretRef.key",
    "redis.sentinel",
    "redis.cluster",
    "redis.tls",
    "redis.user",
    "queueName",
    "requeueLimit",
    "busyExpiry",
    "processingTimeout",
    "onExpiry",
    "retryDelay.initial",
    "retryDelay.factor",
    "retryDelay.max",
    "retryDelay.jitter",
    "failedItems.requeue.minAge",
    "failedItems.requeue.maxFailCount",
    "failedItems.remove.minAge",
    "failedItems.remove.minFailCount",
    "failedItems.remove.match",
    "failedItems.maxItems",
    "maxPayload",
    "maxWaiting",
    "maxWaiting.items",
    "maxWaiting.perClient",
    "maxWaiting.perClient.items",
    "claimWaitTimeout",
    "idWindow",
    "limits",
    "worker.image",
    "worker.command",
    "worker.args",
    "worker.env",
    "worker.envFrom",
    "worker.resources",
    "worker.concurrency",
    "worker.drainTimeout",
    "worker.delivery",
    "worker.push",
    "worker.template",
    "sidecar.resources",
    "sidecar.image",
    "scaling.mode",
    "scaling.replicas",
    "scaling.minReplicas",
    "scaling.maxReplicas",
    "scaling.targetAge",
    "scaling.itemsPerReplica",
    "scaling.idleAfter",
    "scaling.scaleUp",
    "scaling.scaleDown",
    "suspend",
    "deletionPolicy",
]


@pytest.mark.parametrize("field", AGREED)
def test_every_field_that_was_agreed_on_is_declared(field: str) -> None:
    assert f"spec.{field}" in ALL


def test_the_reference_page_is_made_from_the_declarations() -> None:
    assert PAGE.read_text() == reference_page(), (
        "run: python -m claimq_control.manifest.reference > docs/manifest.md"
    )


def test_the_page_has_a_row_for_every_field() -> None:
    rows = re.findall(r"^\| `([^`]+)`", reference_page(), re.MULTILINE)
    assert sorted(rows) == sorted(ALL)


@pytest.mark.parametrize("field", ALL)
def test_every_field_has_a_description_with_unit_and_default(field: str) -> None:
    declared = ALL[field]
    assert re.match(r"[A-Z`].*\.$|true ", declared.doc, re.DOTALL), declared.doc
    text = declared.describe()
    assert "Default: " in text or "Required." in text
    if declared.kind is Kind.DURATION:
        assert "as a duration" in text
    if declared.kind is Kind.SIZE:
        assert "in bytes" in text


@pytest.mark.parametrize("field", ALL)
def test_every_default_is_within_its_bounds_and_is_what_the_parser_fills_in(field: str) -> None:
    declared = ALL[field]
    if declared.default is None:
        return
    *parents, last = field.removeprefix("spec.").split(".")
    document: dict[str, Any] = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "q"},
        "spec": {"redis": {"url": "rediss://a"}, "worker": {"image": "a"}},
    }
    place = document["spec"]
    if parents[:2] == ["redis", "secretRef"]:
        place["redis"] = {}
    if parents[:2] == ["worker", "push"]:
        place["worker"]["delivery"] = "push"
    for parent in parents:
        below: dict[str, Any] = {}
        if parent.endswith("[]"):
            place[parent.removesuffix("[]")] = [below]
            place = below
        else:
            place = place.setdefault(parent, below)
        _complete(place, parent)
    without = parse_manifest(document)
    place[last] = declared.default
    assert parse_manifest(document) == without


def _complete(place: dict[str, Any], parent: str) -> None:
    if parent.endswith("SecretRef") or parent == "secretRef":
        place["name"] = "s"
    if parent == "sentinel":
        place["masterName"] = "m"
    if parent == "limits[]":
        place |= {"name": "a", "rate": "1/s"}


def test_attributes_without_a_declaration_are_only_what_the_parser_fills_in() -> None:
    undeclared: list[str] = []
    classes: list[type[Any]] = [QueueSpec]
    for spec in classes:
        assert is_dataclass(spec)
        declared = {one.attribute: one for one in declared_fields(spec)}
        undeclared += [f"{spec.__name__}.{one.name}" for one in fields(spec) if one.name not in declared]
        classes += [one.declared.nested for one in declared.values() if one.declared.nested is not None]
    assert undeclared == ["ScalingSpec.suspended"]


def test_the_policy_of_a_spec_of_defaults_is_the_library_s() -> None:
    assert Policy(**QueueSpec().policy_fields()) == Policy()


@pytest.mark.parametrize("field", [path for path, declared in ALL.items() if declared.pattern])
def test_patterns_are_plain_enough_for_the_api_server(field: str) -> None:
    pattern = ALL[field].pattern or ""
    assert pattern.startswith("^")
    assert pattern.endswith("$")
    assert not re.search(r"\(\?[=!<P]|\\[1-9bdws]", pattern), (
        "RE2 has no look-around; classes are written out"
    )
    counts = [int(count) for count in re.findall(r"\{\d+,(\d+)\}", pattern)]
    assert all(count <= 1000 for count in counts), "RE2 repeats at most 1000 times"


def test_only_the_queue_name_cannot_be_changed() -> None:
    assert [path for path, declared in ALL.items() if declared.immutable] == ["spec.queueName"]


def test_bounds_are_shown_as_a_manifest_writes_them() -> None:
    assert ALL["spec.busyExpiry"].range() == "from 1s to 24h"
    assert ALL["spec.maxPayload"].range() == "from 1 to 64Mi"
    assert ALL["spec.requeueLimit"].range() == "from 0 to 1000000"
    assert Declared(Kind.INTEGER, "x", least=3).range() == "of at least 3"
    assert Declared(Kind.INTEGER, "x").range() == ""
