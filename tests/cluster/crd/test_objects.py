"""ReliableQueues on a real API server: what is accepted, filled in, kept apart, shown."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest
import yaml

from claimq_control.manifest import Declared, Kind, QueueSpec, parse_manifest, walk
from testkit.kubernetes.api_server import ApiServer, Refused
from testkit.repository.tree import ROOT

ALL: dict[str, Declared] = dict(walk(QueueSpec, "spec"))
ITEMS = "/apis/claimq.dev/v1alpha1/namespaces/media/reliablequeues"

SMALLEST: dict[str, Any] = {"redis": {"url": "redis://redis:6379/0"}, "worker": {"image": "app:1"}}
FULL: dict[str, Any] = {
    "redis": {
        "url": "rediss://a:26379,b:26379/0",
        "user": "media",
        "passwordSecretRef": {"name": "redis"},
        "sentinel": {"masterName": "main", "user": "s", "passwordSecretRef": {"name": "sentinels"}},
        "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "cert"}},
        "appendfsync": "Always",
    },
    "queueName": "media.thumbnails",
    "requeueLimit": 3,
    "maxPostponed": 50,
    "busyExpiry": "1m",
    "processingTimeout": "1h30m",
    "onExpiry": "Fail",
    "keyOrder": "Strict",
    "fairness": {"by": "Count", "weights": {"ann": "2.5"}, "reserve": 0.2},
    "retryDelay": {"initial": "250ms", "factor": 1.5, "max": "1h", "jitter": 0.5},
    "failedItems": {
        "requeue": {"minAge": "1h", "maxFailCount": 3},
        "remove": {"minAge": "168h", "minFailCount": 2, "match": "Either"},
        "maxItems": 1000,
    },
    "maxPayload": 65536,
    "maxWaiting": {"items": 1000, "bytes": "1Mi", "perClient": {"items": 100, "bytes": 1024}},
    "claimWaitTimeout": "0s",
    "idWindow": "2h",
    "durability": "Replicated",
    "durabilityReplicas": 2,
    "durableDone": True,
    "limits": [
        {"name": "api", "per": "client", "rate": "100/s", "burst": 200, "unit": "cost"},
        {"name": "licences", "busy": 20},
    ],
    "worker": {
        "image": "registry.example:5000/app@sha256:" + "0" * 64,
        "command": ["sh", "-c"],
        "args": ["echo \\n" * 2000],
        "env": [
            {"name": "A", "value": ""},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "resources": {"requests": {"cpu": 1, "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
        "concurrency": 10,
        "claimAhead": 20,
        "drainTimeout": "1m",
        "maxUnavailable": 1,
        "disruptionBudget": False,
        "mesh": "Linkerd",
        "deployment": {"labels": {"cost-center": "42"}, "annotations": {"owner": "media"}},
        "delivery": "push",
        "push": {
            "port": 8080,
            "path": "/items",
            "mode": "batched",
            "batchSize": 8,
            "timeout": "30s",
            "probePath": "/ready",
            "retryClientErrors": True,
        },
        "template": {
            "metadata": {"labels": {"tier": "back"}, "annotations": {"note": "long " * 100}},
            "spec": {
                "terminationGracePeriodSeconds": 90,
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"operator": "Exists"}],
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "containers": [
                    {"name": "worker", "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
                    {"name": "proxy", "image": "proxy:1", "args": ["-v"]},
                    {
                        "name": "metrics",
                        "image": "metrics:1",
                        "ports": [
                            {"containerPort": 9464, "protocol": "TCP"},
                            {"containerPort": 9465, "protocol": "UDP"},
                        ],
                    },
                ],
                # An init container ends before the sidecar starts, and UDP is another port.
                "initContainers": [
                    {
                        "name": "fetch",
                        "image": "fetch:1",
                        "ports": [{"containerPort": 9465, "protocol": "TCP"}],
                    }
                ],
            },
        },
    },
    "sidecar": {"image": "sidecar:2", "port": 9465, "resources": {"requests": {"cpu": "20m"}}},
    "scaling": {
        "mode": "Auto",
        "minReplicas": 1,
        "maxReplicas": 50,
        "targetAge": "1m",
        "itemsPerReplica": 100,
        "idleAfter": "5m",
        "scaleUp": {"maxStep": 4, "period": "15s"},
        "scaleDown": {"maxStep": 2, "period": "30s", "stabilizationWindow": "5m"},
    },
    "suspend": True,
    "deletionPolicy": "DeleteIfEmpty",
}
SECRET: dict[str, Any] = {
    "redis": {"secretRef": {"name": "redis"}, "cluster": True},
    "worker": {"image": "app:1"},
    "scaling": {"mode": "Manual", "replicas": 0},
}


def queue(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": name, "namespace": "media"},
        "spec": spec,
    }


def created(server: ApiServer, document: dict[str, Any]) -> Any:
    """The object as it is stored."""
    code, answer = server.request("POST", f"{ITEMS}?fieldValidation=Strict", document)
    assert code == 201, answer
    return answer


def examples() -> Iterator[dict[str, Any]]:
    """The manifests of examples and documents, with a server where they leave it to local mode."""
    texts = [path.read_text() for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        texts += re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL)
    for text in texts:
        for document in yaml.safe_load_all(text):
            if isinstance(document, dict) and document.get("kind") == "ReliableQueue":
                document["spec"].setdefault("redis", {"secretRef": {"name": "redis", "key": "url"}})
                document["metadata"]["namespace"] = "media"
                yield document


EXAMPLES = list(examples())


@pytest.fixture(autouse=True)
def nothing_left(api_server: ApiServer) -> Iterator[None]:
    yield
    api_server.request("DELETE", ITEMS)


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda one: one["metadata"]["name"])
def test_every_example_is_accepted(api_server: ApiServer, document: dict[str, Any]) -> None:
    parse_manifest(document)
    created(api_server, document)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize("spec", [SMALLEST, FULL, SECRET], ids=["smallest", "full", "by a secret"])
def test_a_good_manifest_is_accepted_and_means_the_same_with_its_defaults(
    api_server: ApiServer, spec: dict[str, Any]
) -> None:
    stored = created(api_server, queue("good", spec))
    assert parse_manifest(queue("good", stored["spec"])) == parse_manifest(queue("good", spec))


def test_a_container_may_have_null_for_its_ports(api_server: ApiServer) -> None:
    worker = {"image": "app:1", "template": {"spec": {"containers": [{"name": "worker", "ports": None}]}}}
    created(api_server, queue("null-ports", {**SMALLEST, "worker": worker}))


def test_the_full_manifest_has_every_field() -> None:
    given = set(_given(FULL, "spec")) | set(_given(SECRET, "spec"))
    needs_a_choice = {"spec.redis.tls.certSecretRef.certKey", "spec.redis.tls.certSecretRef.privateKeyKey"}
    keys = {path for path in ALL if path.endswith(".key")}
    limits = {"spec.sidecar.resources.limits"}
    assert set(ALL) - given == needs_a_choice | keys | limits


def _given(value: Any, path: str) -> Iterator[str]:
    if path in ALL:
        yield path
    if isinstance(value, dict) and (path not in ALL or ALL[path].nested is not None):
        for name, below in cast("dict[str, Any]", value).items():
            yield from _given(below, f"{path}.{name}")
    if isinstance(value, list) and ALL[path].kind is Kind.OBJECTS:
        for entry in cast("Sequence[Any]", value):
            yield from _given(entry, f"{path}[]")


def test_defaults_are_filled_in_as_documented(api_server: ApiServer) -> None:
    stored = created(api_server, queue("smallest", SMALLEST))["spec"]
    filled = {path: declared.default for path, declared in ALL.items() if declared.default is not None}
    missing = {path for path, default in filled.items() if _at(stored, path) != default}
    # Objects that were not asked for have no fields: a secret, a master, push, a limit.
    assert {
        path for path in missing if not re.search(r"Ref\.|secretRef\.|worker\.push\.|limits\[\]\.", path)
    } == set()
    worker: dict[str, Any] = {"image": "app:1", "delivery": "push", "push": {}}
    pushed = created(api_server, queue("pushed", SMALLEST | {"worker": worker}))["spec"]
    of_push = {path: default for path, default in filled.items() if path.startswith("spec.worker.push.")}
    assert of_push == {path: _at(pushed, path) for path in of_push}
    more = created(api_server, queue("more", SECRET))["spec"]
    assert more["redis"]["secretRef"] == {"name": "redis", "key": "url"}
    tls = created(api_server, queue("full", FULL))["spec"]["redis"]["tls"]
    assert tls["certSecretRef"] == {"name": "cert", "certKey": "tls.crt", "privateKeyKey": "tls.key"}
    assert tls["caSecretRef"] == {"name": "ca", "key": "ca.crt"}


def _at(value: Any, path: str) -> Any:
    for part in path.split(".")[1:]:
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    return value


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "other"), ("first", "other"), ("first", None)],
    ids=["given", "changed", "removed"],
)
def test_the_queue_name_cannot_be_changed(
    api_server: ApiServer, before: str | None, after: str | None
) -> None:
    names = {"queueName": before} if before else {}
    created(api_server, queue("named", SMALLEST | names))
    patch = json.dumps({"spec": {"queueName": after}})
    with pytest.raises(Refused) as refused:
        api_server.kubectl("patch", "rq", "named", "-n", "media", "--type=merge", "-p", patch)
    assert "spec.queueName: Invalid value" in str(refused.value)
    assert "make a new ReliableQueue and delete this one" in str(refused.value)


def test_all_else_can_be_changed(api_server: ApiServer) -> None:
    created(api_server, queue("changing", SMALLEST | {"queueName": "kept"}))
    changed = queue("changing", FULL | {"queueName": "kept"})
    assert "configured" in api_server.kubectl("apply", "-f", "-", stdin=json.dumps(changed))
    assert api_server.get("rq", "changing", "-n", "media")["spec"]["onExpiry"] == "Fail"


def test_the_number_of_workers_is_scaled_by_hand_in_the_mode_manual(api_server: ApiServer) -> None:
    created(api_server, queue("by-hand", SECRET))
    api_server.kubectl("scale", "rq/by-hand", "-n", "media", "--replicas=7")
    assert api_server.get("rq", "by-hand", "-n", "media")["spec"]["scaling"]["replicas"] == 7


def test_scaling_by_hand_in_the_mode_auto_is_refused_with_what_to_do(api_server: ApiServer) -> None:
    created(api_server, queue("auto", SMALLEST))
    with pytest.raises(Refused, match=r"spec\.scaling\.replicas.*set mode: Manual"):
        api_server.kubectl("scale", "rq/auto", "-n", "media", "--replicas=7")


STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Working",
            "message": "It works.",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
    "items": {"main": 12, "busy": 3, "delayed": 4, "failed": 5},
    "waiting": {"notDue": 3, "paused": 0, "keyBusy": 1, "limit": 5, "ready": 7},
    "oldest": "1m",
    "workers": {"desired": 3, "ready": 2, "busy": 1, "summary": "2/3"},
    "selector": "claimq.dev/queue=q",
    "scaling": {"replicas": 3, "rule": "TargetAge", "reason": "x", "inputs": {"anything": [1]}},
}


def test_status_is_kept_apart_from_spec(api_server: ApiServer) -> None:
    stored = created(api_server, queue("two-parts", SMALLEST) | {"status": STATUS})
    assert stored["status"] == {"observedGeneration": -1}
    path = f"{ITEMS}/two-parts"
    code, answer = api_server.request(
        "PATCH", f"{path}/status", {"status": STATUS, "spec": {"requeueLimit": 99}}
    )
    assert code == 200
    assert answer["status"] == STATUS
    assert answer["spec"] == stored["spec"]
    assert answer["metadata"]["generation"] == stored["metadata"]["generation"]
    _, answer = api_server.request("PATCH", path, {"status": {"items": {"main": 0}}})
    assert answer["status"] == STATUS


def test_autoscalers_read_workers_and_their_selector(api_server: ApiServer) -> None:
    created(api_server, queue("scaled", SECRET))
    api_server.request("PATCH", f"{ITEMS}/scaled/status", {"status": STATUS})
    _, scale = api_server.request("GET", f"{ITEMS}/scaled/scale")
    assert scale["status"] == {"replicas": 3, "selector": "claimq.dev/queue=q"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"conditions": [{**STATUS["conditions"][0], "status": "yes"}]},
        {"conditions": [{"type": "Ready", "status": "True"}]},
        {"items": {"main": "many"}},
    ],
)
def test_a_status_that_is_none_is_refused(api_server: ApiServer, wrong: dict[str, Any]) -> None:
    created(api_server, queue("status", SMALLEST))
    code, answer = api_server.request("PATCH", f"{ITEMS}/status/status", {"status": wrong})
    assert code == 422, answer


def test_unknown_fields_are_refused_by_kubectl_apply_as_it_is(api_server: ApiServer) -> None:
    document = queue("misspelt", SMALLEST | {"busyExpire": "1m"})
    with pytest.raises(Refused, match=r'unknown field "spec\.busyExpire"'):
        api_server.kubectl("apply", "-f", "-", stdin=json.dumps(document))


def test_what_belongs_to_the_pod_passes_unchanged(api_server: ApiServer) -> None:
    stored = created(api_server, queue("pod", FULL))
    assert stored["spec"]["worker"]["template"] == FULL["worker"]["template"]
    assert stored["spec"]["worker"]["envFrom"] == FULL["worker"]["envFrom"]


def test_the_table_shows_how_a_queue_is(api_server: ApiServer) -> None:
    created(api_server, queue("shown", SMALLEST))
    api_server.request("PATCH", f"{ITEMS}/shown/status", {"status": STATUS})
    head, row = api_server.kubectl("get", "rq", "-n", "media").splitlines()
    assert head.split() == ["NAME", "READY", "REASON", "MAIN", "BUSY", "FAILED", "OLDEST", "WORKERS", "AGE"]
    assert row.split()[:-1] == ["shown", "True", "Working", "12", "3", "5", "1m", "2/3"]
    head, row = api_server.kubectl("get", "rq", "-n", "media", "-o", "wide").splitlines()
    assert head.split()[-4:] == ["WORKERS", "DELAYED", "RULE", "AGE"]
    assert row.split()[-4:-1] == ["2/3", "4", "TargetAge"]


@pytest.mark.parametrize("name", ["rq", "reliablequeue", "reliablequeues.claimq.dev", "claimq", "all"])
def test_a_queue_is_found_under_each_of_its_names(api_server: ApiServer, name: str) -> None:
    created(api_server, queue("found", SMALLEST))
    assert "found" in api_server.kubectl("get", name, "-n", "media", "-o", "name")


def test_explain_describes_every_field_with_unit_and_default(api_server: ApiServer) -> None:
    said = re.sub(r"\s+", " ", api_server.kubectl("explain", "reliablequeues.spec.scaling"))
    assert "targetAge <string>" in said
    assert "How long an item may wait before it is started, as a duration." in said
    assert "Default: 30s. Allowed: from 1s to 168h." in said
    assert "enum: Auto, Manual, External" in said
    tree = api_server.kubectl("explain", "reliablequeues", "--recursive")
    names = {path.removesuffix("[]").split(".")[-1] for path in ALL}
    assert {name for name in names if not re.search(rf"\b{name}\t", tree)} == set()
    for path, declared in ALL.items():
        if declared.nested is not None:
            asked = "reliablequeues." + path.replace("[]", "")
            whole = re.sub(r"\s+", " ", api_server.kubectl("explain", asked))
            assert declared.doc in whole
            assert "<no description>" not in whole
