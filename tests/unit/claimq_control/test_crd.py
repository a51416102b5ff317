"""The CustomResourceDefinition: the file is the generated one, and it says what the library says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from claimq.policy import Policy
from claimq_control.crd.cel import FIELD_RULES, OBJECT_RULES, ROOT_RULES
from claimq_control.crd.cel_rule import CelRule, joined, literal
from claimq_control.crd.definition import STATUS, custom_resource_definition
from claimq_control.manifest import RULES, Declared, Kind, QueueSpec, ScalingSpec, parse_manifest, walk
from claimq_process.duration import parse_duration
from claimq_process.size import parse_size
from testkit.repository.tree import script

VERSION = custom_resource_definition()["spec"]["versions"][0]
SPEC: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]["properties"]["spec"]
ALL = dict(walk(QueueSpec, "spec"))
CROSS_RULES = [rule for rules in OBJECT_RULES.values() for rule in rules] + [
    rule for rules in FIELD_RULES.values() for rule in rules
]
MINIMAL: dict[str, Any] = {"redis": {"url": "redis://h"}, "worker": {"image": "a"}}


def schema_at(path: str) -> dict[str, Any]:
    """The schema of a declared field, by its path: ``spec.worker.env[].name``."""
    found = SPEC
    for part in path.removeprefix("spec").lstrip(".").split(".") if path != "spec" else []:
        found = found["properties"][re.sub(r"\[\]|\{\}", "", part)]
        found = found["items"] if part.endswith("[]") else found
        found = found["additionalProperties"] if part.endswith("{}") else found
    return found


def defaulted(schema: dict[str, Any], value: Any) -> Any:
    """What an API server makes of a value: defaults filled in, parents first."""
    if isinstance(value, dict) and "properties" in schema:
        filled = dict(cast("dict[str, Any]", value))
        for name, below in schema["properties"].items():
            if name not in filled and "default" in below:
                filled[name] = below["default"]
            if name in filled:
                filled[name] = defaulted(below, filled[name])
        return filled
    return cast("Any", value)


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "q"},
        "spec": spec,
    }


def test_the_file_is_the_generated_one() -> None:
    make_crd = script("make_crd")
    assert make_crd.FILE.read_text() == make_crd.crd_text(), "run: python scripts/make_crd.py"


@pytest.mark.parametrize("path", [path for path, declared in ALL.items() if declared.nested is None])
def test_a_default_is_the_declared_one(path: str) -> None:
    assert schema_at(path).get("default") == ALL[path].default


def test_what_the_api_server_fills_in_is_what_the_parser_takes_for_granted() -> None:
    filled = defaulted(SPEC, MINIMAL)
    assert filled != MINIMAL
    assert parse_manifest(manifest(filled)) == parse_manifest(manifest(MINIMAL))


def _leaves(value: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for name, below in value.items():
        here = f"{path}.{name}"
        if isinstance(below, dict) and here in ALL and ALL[here].nested is not None:
            yield from _leaves(cast("dict[str, Any]", below), here)
        else:
            yield here, below


def test_every_default_of_an_object_that_always_is_comes_with_the_smallest_manifest() -> None:
    filled = dict(_leaves(defaulted(SPEC, MINIMAL), "spec"))
    optional = {path for path, declared in ALL.items() if declared.nested and declared.optional} - {
        "spec.redis"
    }
    wanted = {
        path: declared.default
        for path, declared in ALL.items()
        if declared.default is not None
        and "[]" not in path  # the smallest manifest has no entries
        and not any(path.startswith(f"{outer}.") for outer in optional)
    }
    assert {path: filled.get(path) for path in wanted} == wanted


# The library's name of a policy, and the manifest's.
POLICY_FIELDS = {
    "requeue_limit": "spec.requeueLimit",
    "busy_expiry": "spec.busyExpiry",
    "on_expiry": "spec.onExpiry",
    "retry_delay.initial": "spec.retryDelay.initial",
    "retry_delay.factor": "spec.retryDelay.factor",
    "retry_delay.max": "spec.retryDelay.max",
    "retry_delay.jitter": "spec.retryDelay.jitter",
    "max_payload": "spec.maxPayload",
    "max_waiting.items": "spec.maxWaiting.items",
    "max_waiting.per_client_items": "spec.maxWaiting.perClient.items",
    "max_waiting.bytes": "spec.maxWaiting.bytes",
    "max_waiting.per_client_bytes": "spec.maxWaiting.perClient.bytes",
    "failed.requeue_min_age": "spec.failedItems.requeue.minAge",
    "failed.requeue_max_given_up_count": "spec.failedItems.requeue.maxFailCount",
    "failed.remove_min_age": "spec.failedItems.remove.minAge",
    "failed.remove_min_given_up_count": "spec.failedItems.remove.minFailCount",
    "failed.remove_match": "spec.failedItems.remove.match",
    "failed.max_items": "spec.failedItems.maxItems",
    "suspended": "spec.suspend",
}
SCALING_FIELDS = {
    "min_replicas": "spec.scaling.minReplicas",
    "max_replicas": "spec.scaling.maxReplicas",
    "target_age": "spec.scaling.targetAge",
    "items_per_replica": "spec.scaling.itemsPerReplica",
    "idle_after": "spec.scaling.idleAfter",
    "mode": "spec.scaling.mode",
    "replicas": "spec.scaling.replicas",
    "scale_up.max_step": "spec.scaling.scaleUp.maxStep",
    "scale_up.period": "spec.scaling.scaleUp.period",
    "scale_down.max_step": "spec.scaling.scaleDown.maxStep",
    "scale_down.period": "spec.scaling.scaleDown.period",
    "scale_down.stabilization_window": "spec.scaling.scaleDown.stabilizationWindow",
}


def _library(owner: object, attribute: str) -> Any:
    for part in attribute.split("."):
        owner = getattr(owner, part)
    return owner


def _in_python(declared: Declared, default: Any) -> Any:
    if default is None:
        return None
    match declared.kind:
        case Kind.DURATION:
            return parse_duration(default)
        case Kind.SIZE:
            return parse_size(default)
        case Kind.CHOICE:
            return default.lower()
        case _:
            return default


@pytest.mark.parametrize(("attribute", "path"), POLICY_FIELDS.items())
def test_a_default_is_the_library_s_policy(attribute: str, path: str) -> None:
    assert _in_python(ALL[path], schema_at(path).get("default")) == _library(Policy(), attribute)


@pytest.mark.parametrize(("attribute", "path"), SCALING_FIELDS.items())
def test_a_default_is_the_library_s_scaling(attribute: str, path: str) -> None:
    found = _library(ScalingSpec(), attribute)
    assert _in_python(ALL[path], schema_at(path).get("default")) == (
        found.lower() if isinstance(found, str) else found
    )


def test_every_rule_between_fields_has_its_twin_in_cel() -> None:
    # What may not change, a single manifest cannot show.
    assert {rule.code for rule in CROSS_RULES} == {rule.code for rule in RULES} | {"immutable"}


def test_every_rule_arrives_in_the_schema_at_its_path() -> None:
    for path, rules in (OBJECT_RULES | FIELD_RULES).items():
        arrived = schema_at(path)["x-kubernetes-validations"]
        assert [one for one in arrived if one in [rule.to_schema() for rule in rules]] == [
            rule.to_schema() for rule in rules
        ]


@pytest.mark.parametrize("path", OBJECT_RULES)
def test_a_rule_names_a_field_that_there_is(path: str) -> None:
    for rule in OBJECT_RULES[path]:
        schema = schema_at(path)
        for part in rule.field.split(".")[1:]:
            schema = schema["properties"][part]


@pytest.mark.parametrize("rule", [*CROSS_RULES, *ROOT_RULES], ids=lambda rule: rule.message[:60])
def test_a_rule_says_what_to_do(rule: CelRule) -> None:
    verbs = r"\b(give|remove|keep|write|raise|lower|choose|shorten|correct|set|make)\b|has at most|digits and"
    assert re.search(verbs, rule.message)
    assert not rule.message.endswith(".")
    assert "\n" not in rule.message


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, below in schema.get("properties", {}).items():
        yield f"{path}.{name}", below
        yield from _fields(below.get("items", below), f"{path}.{name}")


FIELDS = [*_fields(SPEC, "spec"), *_fields(STATUS, "status")]


@pytest.mark.parametrize(("path", "schema"), FIELDS, ids=[path for path, _ in FIELDS])
def test_every_field_of_spec_and_status_has_a_description(path: str, schema: dict[str, Any]) -> None:
    assert re.search(r"^[A-Z`a-z].*[.)]$", schema.get("description", ""), re.DOTALL)
    if path in ALL:
        assert schema["description"] == ALL[path].describe()


def test_the_largest_payload_says_what_large_items_cost() -> None:
    assert (
        "An item of 8 MiB blocks the server for up to 80 ms."
        in dict(FIELDS)["spec.maxPayload"]["description"]
    )


def test_columns_and_the_scale_subresource_show_what_there_is() -> None:
    known = {path for path, _ in FIELDS}
    shown = [column["jsonPath"].removeprefix(".") for column in VERSION["additionalPrinterColumns"]]
    scale = [value.removeprefix(".") for value in VERSION["subresources"]["scale"].values()]
    assert "Reason" in [
        column["name"] for column in VERSION["additionalPrinterColumns"] if "priority" not in column
    ]
    for path in [*shown, *scale]:
        if not path.startswith("metadata."):
            assert re.sub(r"\[\?\([^)]*\)\]", "", path) in known


def test_texts_are_quoted_for_cel() -> None:
    assert literal(r"a'\.b") == r"'a\'\\.b'"
    assert joined("is ", "=self.x", "!") == "'is ' + self.x + '!'"
