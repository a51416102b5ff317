"""Manifests with one mistake each: the field that is named and what the message says to do.

The mistakes are in ``bad_manifests.yaml``, a table that an API server with the CRD can be held to as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from claimq.errors import InvalidSpec
from claimq_control.manifest import RULES, QueueSpec, parse_manifest
from claimq_control.manifest.reading import Reading
from claimq_control.manifest.rules import apply_rules
from testkit.kubernetes.bad_manifests import GOOD, MISTAKES, with_changes, with_mistake


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_field_and_what_to_do(mistake: str) -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse_manifest(with_mistake(mistake))
    (problem,) = raised.value.problems
    assert problem.field == MISTAKES[mistake]["field"]
    assert MISTAKES[mistake]["says"] in problem.message


def test_the_table_is_long_and_has_no_entry_twice() -> None:
    entries = yaml.safe_load(Path(__file__).with_name("bad_manifests.yaml").read_text())
    assert len(entries) == len(MISTAKES) >= 100


def test_the_manifest_without_a_mistake_is_good() -> None:
    assert parse_manifest(with_changes({})).name == "thumbnails"


def test_every_rule_between_fields_has_a_mistake_in_the_table() -> None:
    broken: set[str] = set()
    for mistake in MISTAKES:
        reading = Reading(root=QueueSpec)
        spec = reading.read_object(QueueSpec, with_mistake(mistake).get("spec", {}), "spec")
        broken.update(apply_rules(spec, reading))
    assert broken == {rule.code for rule in RULES}
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_all_mistakes_are_reported_at_once() -> None:
    changes = {
        "kind": "Queue",
        "metadata.name": "A",
        "spec.busyExpiry": 5,
        "spec.scaling": {"minReplicas": 5, "maxReplicas": 2, "color": 1},
        "spec.worker": {"image": 3, "env": [{"name": "1"}, {"nam": "A"}]},
    }
    with pytest.raises(InvalidSpec) as raised:
        parse_manifest(with_changes(changes))
    assert {problem.field for problem in raised.value.problems} == {
        "kind",
        "metadata.name",
        "spec.busyExpiry",
        "spec.scaling.color",
        "spec.scaling.minReplicas",
        "spec.worker.image",
        "spec.worker.env[0].name",
        "spec.worker.env[1].name",
        "spec.worker.env[1].nam",
    }
    assert all(str(problem) in str(raised.value) for problem in raised.value.problems)


def test_a_wrong_field_is_not_blamed_a_second_time_by_a_rule_that_needs_it() -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse_manifest(with_changes({"spec.busyExpiry": "1y", "spec.processingTimeout": "10s"}))
    assert [problem.field for problem in raised.value.problems] == ["spec.busyExpiry"]


@pytest.mark.parametrize("document", [None, [], "text", 5, [GOOD]])
def test_what_is_no_manifest_at_all_is_refused(document: Any) -> None:
    with pytest.raises(InvalidSpec, match="apiVersion, kind, metadata and spec"):
        parse_manifest(document)


@pytest.mark.parametrize("kind", [dict, list])
def test_a_template_with_many_objects_in_each_other_is_refused(kind: type) -> None:
    deep: Any = "inside"
    for _ in range(3000):
        deep = {"a": deep} if kind is dict else [deep]
    spec = {"redis": {"url": "redis://db"}, "worker": {"image": "x", "template": {"spec": {"volumes": deep}}}}
    document = {
        "apiVersion": "claimq.dev/v1alpha1", "kind": "ReliableQueue", "metadata": {"name": "q"}, "spec": spec,
    }  # fmt: skip
    with pytest.raises(InvalidSpec) as caught:
        parse_manifest(document)
    assert [problem.field for problem in caught.value.problems] == ["spec.worker.template.spec.volumes"]
    assert "has more than 100 objects and lists in each other" in str(caught.value)
