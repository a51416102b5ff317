"""Good manifests: what they mean, in a cluster and on one machine."""

from __future__ import annotations

import copy
import math
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from claimq.errors import InvalidSpec
from claimq.policy import FailedPolicy, Match, MaxWaiting, OnExpiry, Policy, PolicyFields, RetryDelay
from claimq_control.manifest import (
    LONGEST_NAME,
    DeletionPolicy,
    EnvVar,
    ExpiryAction,
    Manifest,
    RedisSpec,
    ScalingMode,
    SentinelSpec,
    parse_manifest,
)

EXAMPLE = Path(__file__).parents[3] / "examples" / "checksums" / "queue.yaml"

SMALL: dict[str, Any] = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "thumbnails", "namespace": "media", "labels": {"team": "web"}, "uid": "1"},
    "spec": {
        "redis": {"secretRef": {"name": "redis"}},
        "worker": {"image": "registry.example/thumbnailer:1.4@sha256:0a"},
    },
    "status": {"anything": 1},
}
WHOLE: dict[str, Any] = {
    **SMALL,
    "spec": {
        "redis": {
            "url": "rediss://me@a:6380/2",
            "passwordSecretRef": {"name": "redis"},
            "sentinel": {
                "masterName": "main",
                "user": "watch",
                "passwordSecretRef": {"name": "watch", "key": "pw"},
            },
            "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "client", "certKey": "c.pem"}},
        },
        "queueName": "thumbs_v2",
        "requeueLimit": 0,
        "busyExpiry": "1m",
        "processingTimeout": "10m",
        "onExpiry": "Drop",
        "retryDelay": {"initial": "500ms", "factor": 1.5, "max": "1m", "jitter": 1},
        "failedItems": {
            "requeue": {"minAge": "1h", "maxFailCount": 3},
            "remove": {"minAge": "168h", "minFailCount": 4, "match": "Either"},
            "maxItems": 1000,
        },
        "maxPayload": "16Ki",
        "maxWaiting": {"items": 1000, "perClient": {"items": 100}},
        "claimWaitTimeout": "250ms",
        "idWindow": "2h",
        "worker": {
            "image": "app",
            "command": ["run"],
            "args": ["--fast"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "envFrom": [{"configMapRef": {"name": "settings"}}],
            "resources": {"requests": {"cpu": "0.5", "memory": "64Mi"}, "limits": {"cpu": 1}},
            "concurrency": 4,
            "claimAhead": 10,
            "drainTimeout": "1m",
            "template": {
                "metadata": {"labels": {"tier": "back"}, "annotations": {"note": "x"}},
                "spec": {
                    "terminationGracePeriodSeconds": 60,
                    "containers": [{"name": "worker", "ports": []}, {"name": "log", "image": "b"}],
                },
            },
        },
        "sidecar": {"image": "s", "resources": {"limits": {"memory": "1Gi"}}},
        "scaling": {
            "mode": "Auto",
            "minReplicas": 1,
            "maxReplicas": 20,
            "targetAge": "2m",
            "itemsPerReplica": 50,
            "idleAfter": "0s",
            "scaleUp": {"maxStep": 4, "period": "15s"},
            "scaleDown": {"maxStep": 2, "period": "1m", "stabilizationWindow": "5m"},
        },
        "suspend": True,
        "deletionPolicy": "DeleteIfEmpty",
    },
}


def parsed(document: dict[str, Any] | None = None, /, **spec: Any) -> Manifest:
    document = copy.deepcopy(document or SMALL)
    document["spec"].update(spec)
    return parse_manifest(document)


def local(document: dict[str, Any], **options: Any) -> Manifest:
    return parse_manifest(document, local=True, **options)


def test_a_small_manifest_has_the_library_s_policy() -> None:
    manifest = parsed()
    assert (manifest.name, manifest.namespace) == ("thumbnails", "media")
    assert manifest.spec.queue_name == "media.thumbnails"
    assert Policy(**manifest.spec.policy_fields()) == Policy()
    assert manifest.spec.deletion_policy is DeletionPolicy.RETAIN
    assert manifest.spec.redis is not None
    assert manifest.spec.redis.secret_ref is not None
    assert manifest.spec.redis.secret_ref.key == "url"
    assert manifest.spec.worker.drain_timeout == 25.0
    assert (manifest.spec.scaling.min_replicas, manifest.spec.scaling.max_replicas) == (0, 10)


def test_every_field_arrives() -> None:
    spec = parsed(WHOLE).spec
    assert spec.queue_name == "thumbs_v2"
    assert (spec.requeue_limit, spec.busy_expiry, spec.processing_timeout) == (0, 60.0, 600.0)
    assert spec.on_expiry is ExpiryAction.DROP
    assert spec.redis is not None
    assert spec.redis.sentinel is not None
    assert spec.redis.sentinel.password_secret_ref is not None
    assert spec.redis.sentinel.password_secret_ref.key == "pw"
    assert spec.redis.tls is not None
    assert spec.redis.tls.cert_secret_ref is not None
    assert (spec.redis.tls.cert_secret_ref.cert_key, spec.redis.tls.cert_secret_ref.private_key_key) == (
        "c.pem",
        "tls.key",
    )
    worker = spec.worker
    assert (worker.image, worker.command, worker.args, worker.concurrency) == (
        "app",
        ("run",),
        ("--fast",),
        4,
    )
    assert worker.env[0] == EnvVar(name="A", value="1")
    assert worker.env[1].value_from == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert worker.env_from == ({"configMapRef": {"name": "settings"}},)
    assert worker.resources.requests == {"cpu": "0.5", "memory": "64Mi"}
    assert worker.template.metadata.labels == {"tier": "back"}
    assert worker.template.spec["terminationGracePeriodSeconds"] == 60
    assert spec.sidecar.resources.requests == {"cpu": "10m", "memory": "64Mi"}
    assert spec.sidecar.resources.limits == {"memory": "1Gi"}
    scaling = spec.scaling
    assert scaling.mode is ScalingMode.AUTO
    assert (scaling.target_age, scaling.items_per_replica, scaling.idle_after) == (120.0, 50, 0.0)
    assert (scaling.scale_up.max_step, scaling.scale_up.period) == (4, 15.0)
    assert (scaling.scale_down.max_step, scaling.scale_down.stabilization_window) == (2, 300.0)
    assert scaling.suspended is True
    assert spec.deletion_policy is DeletionPolicy.DELETE_IF_EMPTY


def test_the_policy_is_what_the_manifest_says() -> None:
    assert Policy(**parsed(WHOLE).spec.policy_fields()) == Policy(
        requeue_limit=0,
        busy_expiry=60.0,
        on_expiry=OnExpiry.DROP,
        retry_delay=RetryDelay(initial=0.5, factor=1.5, max=60.0, jitter=1.0),
        max_payload=16384,
        max_waiting=MaxWaiting(items=1000, per_client_items=100),
        failed=FailedPolicy(3600.0, 3, 604800.0, 4, max_items=1000, remove_match=Match.EITHER),
        claim_wait_timeout=0.25,
        id_window=7200.0,
        suspended=True,
    )


def test_what_the_manifest_leaves_open_is_no_part_of_what_it_sets() -> None:
    left_open = {"claim_wait_timeout", "id_window"}
    assert parsed().spec.policy_fields().keys() == PolicyFields.__annotations__.keys() - left_open
    assert parsed(WHOLE).spec.policy_fields().keys() == PolicyFields.__annotations__.keys()
    # A default that is written out is set like any other value.
    assert parsed(claimWaitTimeout="1s").spec.policy_fields().get("claim_wait_timeout") == 1.0


def test_an_empty_value_is_an_absent_one() -> None:
    assert parsed(busyExpiry=None, scaling=None, processingTimeout=None) == parsed()


def test_the_longest_name_and_the_default_queue_name_fit() -> None:
    document = copy.deepcopy(SMALL)
    document["metadata"] = {"name": "x" * LONGEST_NAME, "namespace": "n" * 63}
    assert len(parse_manifest(document).spec.queue_name) == LONGEST_NAME + 64
    assert len(f"{'x' * LONGEST_NAME}-worker-0123456789-01234") == 63


def test_without_a_namespace_the_queue_is_in_default() -> None:
    document = copy.deepcopy(SMALL)
    del document["metadata"]["namespace"]
    manifest = parse_manifest(document)
    assert (manifest.namespace, manifest.spec.queue_name) == ("default", "default.thumbnails")


def test_manual_and_external_take_a_number() -> None:
    assert parsed(scaling={"mode": "Manual", "replicas": 0}).spec.scaling.replicas == 0
    assert parsed(scaling={"mode": "External"}).spec.scaling.replicas is None


def test_a_drain_as_long_as_the_grace_period_is_allowed() -> None:
    template = {"spec": {"terminationGracePeriodSeconds": 30}}
    worker = {"image": "a", "drainTimeout": "30s", "template": template}
    assert parsed(worker=worker).spec.worker.drain_timeout == 30.0


def test_a_processing_timeout_as_long_as_the_lease_is_allowed() -> None:
    assert parsed(processingTimeout="30s").spec.processing_timeout == 30.0


def test_removal_may_come_first_where_it_leaves_items_to_requeue() -> None:
    rules = {"requeue": {"minAge": "1h"}, "remove": {"minAge": "1m", "minFailCount": 2}}
    assert parsed(failedItems=rules).spec.failed_items.remove.min_age == 60.0


@pytest.mark.parametrize(
    "url",
    [
        "redis://localhost",
        "redis://me@localhost:6379/15",
        "rediss://[::1]:6380/0",
        "unix:///run/valkey.sock?db=1",
        "redis+sentinel://a:26379,b:26379/main/0",
        "redis+sentinel://a/main",
        "redis+cluster://a:7000,b:7001",
        "rediss+cluster://[::1]:7000,b",
    ],
)
def test_urls_of_servers_are_accepted(url: str) -> None:
    redis = parsed(redis={"url": url}).spec.redis
    assert redis is not None
    assert redis.address() == url


@pytest.mark.parametrize(
    ("redis", "url", "address"),
    [
        (RedisSpec(cluster=True), "redis://u:p@a:1,b:2/0", "redis+cluster://u:p@a:1,b:2"),
        (RedisSpec(cluster=True), "rediss+cluster://a:1", "rediss+cluster://a:1"),
        (
            RedisSpec(sentinel=SentinelSpec(master_name="m")),
            "rediss://a:1,b:2/3",
            "rediss+sentinel://a:1,b:2/m/3",
        ),
        (RedisSpec(sentinel=SentinelSpec(master_name="m")), "redis://a", "redis+sentinel://a/m/0"),
        (RedisSpec(url="redis://a"), None, "redis://a"),
        (RedisSpec(), None, None),
    ],
)
def test_the_address_has_what_sentinel_and_cluster_add(
    redis: RedisSpec, url: str | None, address: str | None
) -> None:
    assert redis.address(url) == address


LOCAL: dict[str, Any] = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "checksums"},
    "spec": {"worker": {"command": ["python3", "worker.py"]}},
}


def test_local_mode_needs_neither_server_nor_image() -> None:
    manifest = local(LOCAL)
    assert manifest.spec.redis is None
    assert manifest.spec.queue_name == "checksums"
    assert manifest.spec.worker.command == ("python3", "worker.py")


def test_a_cluster_needs_both() -> None:
    with pytest.raises(InvalidSpec) as raised:
        parse_manifest(LOCAL)
    assert {problem.field for problem in raised.value.problems} == {"spec.redis", "spec.worker.image"}


def test_local_mode_keeps_a_namespace_in_the_queue_s_name() -> None:
    document = {**LOCAL, "metadata": {"name": "checksums", "namespace": "demo"}}
    assert local(document).spec.queue_name == "demo.checksums"


def test_local_mode_takes_a_manifest_whose_server_only_a_secret_knows() -> None:
    document = copy.deepcopy(LOCAL)
    document["spec"]["redis"] = {"secretRef": {"name": "redis"}}
    redis = local(document).spec.redis
    assert redis is not None
    assert redis.address() is None


def test_local_mode_runs_no_images_and_says_what_to_give() -> None:
    with pytest.raises(InvalidSpec) as raised:
        local(SMALL)
    assert {problem.field: problem.message for problem in raised.value.problems} == {
        "spec.worker.command": "is missing; `claimq up` runs a program, not an image: give the program and its "
        "arguments, or --command",
    }


def test_what_the_command_line_gives_stands_in_for_the_manifest() -> None:
    manifest = local(SMALL, redis_url="redis://u:p@localhost:1/0", command=["sh", "-c", "true"])
    assert manifest.spec.redis == RedisSpec(url="redis://u:p@localhost:1/0")
    assert manifest.spec.worker.command == ("sh", "-c", "true")


def test_what_the_command_line_gives_hides_no_mistake() -> None:
    document = copy.deepcopy(SMALL)
    document["spec"]["redis"] = {"secretRef": {}, "url": "x"}
    with pytest.raises(InvalidSpec, match=r"spec\.redis\.secretRef\.name"):
        local(document, redis_url="redis://a", command=["a"])


def test_local_mode_blames_a_wrong_worker_once() -> None:
    with pytest.raises(InvalidSpec) as raised:
        local({**LOCAL, "spec": {"worker": 5}})
    assert [problem.field for problem in raised.value.problems] == ["spec.worker"]


def test_the_example_is_a_good_manifest_for_local_mode_and_for_a_cluster() -> None:
    document = yaml.safe_load(EXAMPLE.read_text())
    spec = local(document).spec
    assert spec.queue_name == "checksums"
    assert spec.worker.command == ("python3", "worker.py")
    assert spec.scaling.max_replicas > 1
    assert spec.scaling.min_replicas == 0
    on_cluster = parse_manifest(document).spec
    assert on_cluster.redis is not None
    assert on_cluster.redis.secret_ref is not None
    # The kubelet would ask a registry for `latest` each time, and find nothing where nodes were given the image.
    assert not on_cluster.worker.image.endswith(":latest")


keys = st.text(max_size=8) | st.integers()
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
    | st.sampled_from(["30s", "1Mi", "redis://a", 10**60, -(10**400), 10**400, 1.7e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a document, as the keys that lead there."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        entries = list(cast("dict[object, object]", value).items())
    elif isinstance(value, list):
        entries = list(enumerate(cast("list[object]", value)))
    return [path, *(place for key, inner in entries for place in places(inner, (*path, key)))]


def put(place: tuple[Any, ...], value: object) -> dict[str, Any]:
    """A whole manifest with ``value`` at ``place``."""
    holder = document = copy.deepcopy(WHOLE)
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return document


@pytest.mark.parametrize("value", [10**60, -(10**400), 10**400, 1.7e308, math.inf, math.nan])
def test_a_number_of_any_size_anywhere_is_refused_with_its_field_or_accepted(value: float) -> None:
    for place in filter(None, places(WHOLE)):
        with suppress(InvalidSpec):
            parse_manifest(put(place, value)).spec.policy_fields()


@given(st.sampled_from([place for place in places(WHOLE) if place]), json_values, st.booleans())
@settings(max_examples=400, deadline=None)
def test_whatever_stands_anywhere_is_accepted_or_refused_with_a_field_near_it(
    place: tuple[Any, ...], value: Any, is_local: bool
) -> None:
    try:
        manifest = parse_manifest(put(place, value), local=is_local)
    except InvalidSpec as error:
        for problem in error.problems:
            assert problem.field
            assert len(problem.message) > 10
            assert place[0] in problem.field or place[0] == "metadata"
    else:
        manifest.spec.policy_fields()
