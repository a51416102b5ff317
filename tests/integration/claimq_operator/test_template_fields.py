"""Each field of a pod that the newest Kubernetes has is refused in a template, or allowed on purpose."""

import json
from collections.abc import Generator
from typing import Any

import pytest

from claimq_control.manifest import TemplateSpec
from claimq_operator.children.restrictions import (
    CONTAINER_FIELDS,
    POD_FIELDS,
    SECURITY_FIELDS,
    VOLUME_TYPES,
    refused,
)
from testkit.kubernetes.api_server import ApiServer

NEEDS_A_WORD = {
    "PodSpec": {
        "ephemeralContainers", "evictionResponders", "nodeName", "overhead", "preemptionPolicy", "priority",
        "priorityClassName", "runtimeClassName", "schedulerName", "schedulingGroup",
    },
    "Container": set[str](),
    "SecurityContext": set[str](),
    "PodSecurityContext": set[str](),
}  # fmt: skip
ALLOWED = {
    "PodSpec": POD_FIELDS,
    "Container": CONTAINER_FIELDS,
    "SecurityContext": SECURITY_FIELDS,
    "PodSecurityContext": SECURITY_FIELDS,
}
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


@pytest.fixture(scope="module")
def schemas() -> Generator[dict[str, Any]]:
    with ApiServer() as server:
        status, answer = server.request("GET", "/openapi/v3/api/v1")
        assert status == 200
        document: Any = json.loads(answer) if isinstance(answer, str) else answer
        yield document["components"]["schemas"]


def fields(schemas: dict[str, Any], kind: str) -> set[str]:
    return set(schemas[f"io.k8s.api.core.v1.{kind}"]["properties"])


def pod_with(kind: str, name: str) -> dict[str, Any]:
    value: Any = {"x": "y"}
    if kind == "PodSpec":
        return {name: value}
    if kind == "PodSecurityContext":
        return {"securityContext": {name: value}}
    inner = {name: value} if kind == "Container" else {"securityContext": {name: value}}
    return {"containers": [{"name": "worker", **inner}]}


@pytest.mark.parametrize("kind", NEEDS_A_WORD)
def test_each_field_is_decided(schemas: dict[str, Any], kind: str) -> None:
    """A field that is new in Kubernetes belongs into NEEDS_A_WORD or into the operator's list."""
    known = fields(schemas, kind)
    assert known - ALLOWED[kind] - NEEDS_A_WORD[kind] == set()
    for name in NEEDS_A_WORD[kind]:
        assert f".{name} (" in refused(TemplateSpec(spec=pod_with(kind, name)), ())


def test_only_the_types_of_volumes_of_pod_security_restricted_pass(schemas: dict[str, Any]) -> None:
    types = fields(schemas, "Volume") - {"name"}
    assert VOLUME_TYPES == RESTRICTED_VOLUMES
    assert types > RESTRICTED_VOLUMES
    passed = {
        kind
        for kind in types
        if not refused(TemplateSpec(spec={"volumes": [{"name": "a", kind: {"x": "y"}}]}), ())
    }
    assert passed == RESTRICTED_VOLUMES
