"""The worker Deployment: what claimq injects, what the template adds, and Pod Security `restricted`."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

import claimq_process.names
from claimq_control.manifest.pod_template import RESERVED_VOLUMES
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children.budget import budget
from claimq_operator.children.deployment import WorkerDeployment, deployment
from claimq_operator.children.sidecar import lifecycle_key
from claimq_operator.settings import OperatorSettings

Build = Callable[..., WorkerDeployment]


@pytest.fixture
def build(queue: Callable[..., QueueResource], settings: OperatorSettings) -> Build:
    def make(**spec: Any) -> WorkerDeployment:
        resource = queue(**spec)
        assert resource.spec is not None, resource.problems
        return deployment(resource, resource.spec, settings)

    return make


def pod_of(made: WorkerDeployment) -> dict[str, Any]:
    pod: dict[str, Any] = made.body["spec"]["template"]["spec"]
    return pod


def app_of(made: WorkerDeployment) -> dict[str, Any]:
    return next(one for one in pod_of(made)["containers"] if one["name"] == "worker")


def sidecar_of(made: WorkerDeployment) -> dict[str, Any]:
    return next(one for one in pod_of(made)["initContainers"] if one["name"] == "claimq-sidecar")


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container["env"]}


def test_the_sidecar_is_native_and_after_the_templates_init_containers(build: Build) -> None:
    made = build(worker={"template": {"spec": {"initContainers": [{"name": "mesh", "image": "mesh:1"}]}}})
    assert [one["name"] for one in pod_of(made)["initContainers"]] == ["mesh", "claimq-sidecar"]
    assert sidecar_of(made)["restartPolicy"] == "Always"


def test_the_deployment_and_not_its_pods_has_the_release_of_the_operator(build: Build) -> None:
    # In the template, each upgrade of the operator would replace all workers.
    made, label = build(), "claimq.dev/operator-version"
    assert made.body["metadata"]["labels"][label] == version("claimq-operator")
    assert label not in made.body["spec"]["template"]["metadata"]["labels"]
    assert label not in made.body["spec"]["selector"]["matchLabels"]


def test_both_containers_share_the_socket_in_memory(build: Build) -> None:
    made = build()
    volume = next(one for one in pod_of(made)["volumes"] if one["name"] == "claimq-socket")
    assert volume["emptyDir"]["medium"] == "Memory"
    for container in (app_of(made), sidecar_of(made)):
        assert {"name": "claimq-socket", "mountPath": "/run/claimq"} in container["volumeMounts"]
        assert env_of(container)["CLAIMQ_SOCKET"] == "/run/claimq/claimq.sock"


def test_the_sidecar_gets_the_concurrency_of_the_manifest(build: Build) -> None:
    assert env_of(sidecar_of(build()))["CLAIMQ_CONCURRENCY"] == "1"
    made = env_of(sidecar_of(build(worker={"concurrency": 20, "claimAhead": 7})))
    assert (made["CLAIMQ_CONCURRENCY"], made["CLAIMQ_CLAIM_AHEAD"]) == ("20", "7")


@pytest.mark.parametrize(
    ("template", "account"),
    [
        ({}, "default"),
        ({"serviceAccountName": "a"}, "a"),
        ({"serviceAccount": "old"}, "old"),
        ({"serviceAccountName": ""}, "default"),
        ({"serviceAccountName": None}, "default"),
    ],
)
def test_the_service_account_is_always_named(build: Build, template: dict[str, Any], account: str) -> None:
    # If it were left out, a previous value would stay: the API server keeps a copy without a field manager.
    made = build(worker={"template": {"spec": template}})
    assert pod_of(made)["serviceAccountName"] == account


def test_the_sidecar_claims_under_the_pods_name_and_uid(build: Build) -> None:
    env = sidecar_of(build())["env"]
    names = [one["name"] for one in env]
    assert env_of(sidecar_of(build()))["CLAIMQ_WORKER_PREFIX"] == "$(POD_NAME).$(POD_UID)"
    # A variable can only be used in one that comes after it.
    assert max(names.index("POD_NAME"), names.index("POD_UID")) < names.index("CLAIMQ_WORKER_PREFIX")


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_every_container_of_ours_passes_restricted(build: Build, kind: str) -> None:
    pod = pod_of(build())
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in pod[kind]:
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_worker_has_no_access_to_the_api_server(build: Build) -> None:
    assert pod_of(build())["automountServiceAccountToken"] is False


def test_the_templates_security_settings_win_where_it_has_some(build: Build) -> None:
    pod = pod_of(build(worker={"template": {"spec": {"securityContext": {"runAsUser": 7, "fsGroup": 8}}}}))
    assert (pod["securityContext"]["runAsUser"], pod["securityContext"]["fsGroup"]) == (7, 8)
    assert pod["securityContext"]["runAsNonRoot"] is True


NULLS: dict[str, Any] = {
    "securityContext": {"runAsNonRoot": None, "seccompProfile": None, "fsGroup": None},
    "automountServiceAccountToken": None,
    "enableServiceLinks": None,
    "serviceAccountName": None,
    "terminationGracePeriodSeconds": None,
    "restartPolicy": None,
    "initContainers": None,
    "volumes": None,
    "containers": [
        {
            "name": "worker",
            "securityContext": {"allowPrivilegeEscalation": None, "capabilities": {"drop": None}},
            "lifecycle": {"preStop": None},
            "livenessProbe": None,
        }
    ],
}


def test_a_null_in_the_template_leaves_the_safe_setting_in_place(build: Build) -> None:
    plain = build(processingTimeout="5m")
    for pod in (
        NULLS,
        {"securityContext": None, "containers": None},
        {"securityContext": {"seccompProfile": {"type": None}}},
    ):
        made = build(processingTimeout="5m", worker={"template": {"spec": pod}})
        assert made.body == plain.body
        assert made.left_out == ()


def test_a_null_in_a_list_is_no_entry(build: Build) -> None:
    # The API server would make 0, the group of root, of the null.
    spec = {"securityContext": {"supplementalGroups": [None, 7]}, "containers": [None], "volumes": [None]}
    pod = pod_of(build(worker={"template": {"spec": spec}}))
    assert pod["securityContext"]["supplementalGroups"] == [7]
    assert [one["name"] for one in pod["containers"]] == ["worker"]
    assert [one["name"] for one in pod["volumes"]] == ["claimq-socket"]


def test_nulls_in_variables_of_the_app_are_not_set(build: Build) -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}, "secretKeyRef": None}}]
    made = build(worker={"env": env, "envFrom": [{"configMapRef": {"name": "c"}, "prefix": None}]})
    assert app_of(made)["env"][1]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert app_of(made)["envFrom"] == [{"configMapRef": {"name": "c"}}]


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_the_templates_own_containers_are_restricted_too(build: Build, kind: str) -> None:
    own: list[dict[str, Any]] = [
        {"name": "a", "image": "a:1"},
        {"name": "b", "image": "b:1", "securityContext": {"capabilities": None, "runAsUser": 7}},
    ]
    pod = pod_of(build(worker={"template": {"spec": {kind: own}}}))
    first, second = (one["securityContext"] for one in pod[kind] if one["name"] in ("a", "b"))
    assert first == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert second == {**first, "runAsUser": 7}


def test_a_privileged_container_is_left_as_it_is(build: Build) -> None:
    # The API server refuses a privileged container whose allowPrivilegeEscalation is false.
    own = {"name": "a", "image": "a:1", "securityContext": {"privileged": True}}
    pod = pod_of(build(worker={"template": {"spec": {"containers": [own]}}}))
    assert own in pod["containers"]


def test_the_app_is_drained_before_it_gets_sigterm(build: Build) -> None:
    made = build()
    assert app_of(made)["lifecycle"]["preStop"]["httpGet"]["path"] == "/worker/prestop"
    assert sidecar_of(made)["lifecycle"]["preStop"]["httpGet"]["path"] == "/drain"
    assert made.left_out == ()


def test_the_hooks_send_the_key_that_the_sidecar_expects(build: Build) -> None:
    made = build()
    key = env_of(sidecar_of(made))["CLAIMQ_LIFECYCLE_KEY"]
    for container in (app_of(made), sidecar_of(made)):
        shown = container["lifecycle"]["preStop"]["httpGet"]["httpHeaders"]
        assert shown == [{"name": claimq_process.names.LIFECYCLE_KEY_HEADER, "value": key}]
    assert "CLAIMQ_LIFECYCLE_KEY" not in env_of(app_of(made))


@pytest.mark.parametrize(("sidecar", "port"), [({}, 9464), ({"port": 9465}, 9465)])
def test_sidecar_probes_and_hooks_use_the_port_of_the_manifest(
    build: Build, sidecar: dict[str, int], port: int
) -> None:
    made = build(sidecar=sidecar, processingTimeout="1m")
    own, app = sidecar_of(made), app_of(made)
    requests = [
        own["readinessProbe"],
        own["livenessProbe"],
        own["lifecycle"]["preStop"],
        app["livenessProbe"],
        app["lifecycle"]["preStop"],
    ]
    assert {one["httpGet"]["port"] for one in requests} == {port}
    assert [one["containerPort"] for one in own["ports"]] == [port]
    assert env_of(own)["CLAIMQ_HEALTH_PORT"] == str(port)


def test_the_pods_of_a_mesh_let_plain_requests_to_the_sidecar_through(build: Build) -> None:
    metadata = build(worker={"mesh": "Linkerd"}, sidecar={"port": 9465}).body["spec"]["template"]["metadata"]
    assert metadata["annotations"] == {"config.linkerd.io/skip-inbound-ports": "9465"}


def test_each_queue_has_its_own_constant_lifecycle_key() -> None:
    one, other = "5a2e6d0e-0000-4000-8000-000000000001", "5a2e6d0e-0000-4000-8000-000000000002"
    assert lifecycle_key(one) == lifecycle_key(one) != lifecycle_key(other)
    assert one not in lifecycle_key(one)


def test_the_apps_own_pre_stop_hook_is_kept_and_reported(build: Build) -> None:
    own = {"exec": {"command": ["true"]}}
    container = {"name": "worker", "lifecycle": {"preStop": own, "postStart": own}}
    made = build(worker={"template": {"spec": {"containers": [container]}}})
    assert app_of(made)["lifecycle"] == {"preStop": own, "postStart": own}
    assert "preStop" in made.left_out[0]


def test_a_stuck_app_is_restarted_with_and_without_a_processing_timeout(build: Build) -> None:
    made = build()
    probe = app_of(made)["livenessProbe"]
    assert (probe["httpGet"]["path"], probe["periodSeconds"] * probe["failureThreshold"]) == (
        "/worker/livez",
        60,
    )
    assert "CLAIMQ_PROCESSING_TIMEOUT" not in env_of(sidecar_of(made))
    made = build(processingTimeout="5m")
    assert app_of(made)["livenessProbe"]["httpGet"]["path"] == "/worker/livez"
    assert env_of(sidecar_of(made))["CLAIMQ_PROCESSING_TIMEOUT"] == "5m"


@pytest.mark.parametrize(
    ("push", "variable", "address"),
    [({}, "CLAIMQ_PUSH_SOCKET", "/run/claimq/app.sock"), ({"port": 8080}, "CLAIMQ_PUSH_PORT", "8080")],
)
def test_app_and_sidecar_get_the_address_of_pushes(
    build: Build, push: dict[str, Any], variable: str, address: str
) -> None:
    made = build(worker={"delivery": "push", "push": {**push, "probePath": "/up"}})
    assert env_of(app_of(made))[variable] == env_of(sidecar_of(made))[variable] == address
    assert env_of(sidecar_of(made))["CLAIMQ_PUSH_PROBE_PATH"] == "/up"
    assert not any(name.startswith("CLAIMQ_PUSH_") for name in env_of(sidecar_of(build())))


def test_the_apps_own_liveness_probe_is_kept_and_reported(build: Build) -> None:
    own = {"tcpSocket": {"port": 80}}
    containers = [{"name": "worker", "livenessProbe": own}]
    made = build(processingTimeout="5m", worker={"template": {"spec": {"containers": containers}}})
    assert app_of(made)["livenessProbe"] == own
    assert "livenessProbe" in made.left_out[0]


def test_the_grace_period_follows_from_the_drain_time(build: Build) -> None:
    assert pod_of(build(worker={"drainTimeout": "90s"}))["terminationGracePeriodSeconds"] == 100


def test_the_templates_grace_period_wins(build: Build) -> None:
    made = build(worker={"drainTimeout": "90s", "template": {"spec": {"terminationGracePeriodSeconds": 600}}})
    assert pod_of(made)["terminationGracePeriodSeconds"] == 600


def test_all_else_of_a_pod_comes_from_the_template(build: Build) -> None:
    template: dict[str, Any] = {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "nodeSelector": {"disk": "fast"},
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [
                {"name": "worker", "volumeMounts": [{"name": "data", "mountPath": "/data"}]},
                {"name": "cache", "image": "cache:1"},
            ],
        },
    }
    made = build(worker={"template": template})
    head = made.body["spec"]["template"]["metadata"]
    assert (head["labels"]["team"], head["annotations"]) == ("a", {"note": "b"})
    assert pod_of(made)["nodeSelector"] == {"disk": "fast"}
    assert [one["name"] for one in pod_of(made)["containers"]] == ["worker", "cache"]
    assert {one["mountPath"] for one in app_of(made)["volumeMounts"]} == {"/run/claimq", "/data"}
    assert {"data", "claimq-socket"} <= {one["name"] for one in pod_of(made)["volumes"]}


def test_a_template_cannot_take_pods_out_of_the_selector(build: Build) -> None:
    made = build(worker={"template": {"metadata": {"labels": {"app.kubernetes.io/component": "mine"}}}})
    labels = made.body["spec"]["template"]["metadata"]["labels"]
    assert made.body["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_app_container_follows_the_manifest(build: Build) -> None:
    worker = {
        "command": ["run"],
        "args": ["fast"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "envFrom": [{"configMapRef": {"name": "c"}}],
        "resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}},
    }  # fmt: skip
    app = app_of(build(worker=worker))
    assert (app["command"], app["args"]) == (["run"], ["fast"])
    assert app["env"][1:] == worker["env"]
    assert app["envFrom"] == worker["envFrom"]
    assert app["resources"] == worker["resources"]


def test_secrets_are_files_and_never_in_the_environment(build: Build) -> None:
    redis = {
        "secretRef": {"name": "redis"},
        "user": "worker",
        "passwordSecretRef": {"name": "redis"},
        "sentinel": {"masterName": "main", "passwordSecretRef": {"name": "sentinels"}},
        "tls": {"caSecretRef": {"name": "ca"}, "certSecretRef": {"name": "client"}},
    }
    made = build(redis=redis)
    env = env_of(sidecar_of(made))
    assert "CLAIMQ_REDIS_URL" not in env
    assert env["CLAIMQ_REDIS_URL_FILE"] == "/run/claimq-redis/url"
    assert env["CLAIMQ_REDIS_NAMESPACE"] == "media"  # where short names in the Secret's URL are Services
    assert (env["CLAIMQ_REDIS_USERNAME"], env["CLAIMQ_REDIS_SENTINEL_MASTER"]) == ("worker", "main")
    sources = next(one for one in pod_of(made)["volumes"] if one["name"] == "claimq-redis")["projected"][
        "sources"
    ]
    files = {
        item["path"]: source["secret"]["name"] for source in sources for item in source["secret"]["items"]
    }
    assert files == {
        "url": "redis",
        "password": "redis",
        "sentinel-password": "sentinels",
        "ca.crt": "ca",
        "tls.crt": "client",
        "tls.key": "client",
    }
    assert all("claimq-redis" not in str(mount) for mount in app_of(made)["volumeMounts"])


def test_an_address_without_secrets_needs_no_volume(build: Build) -> None:
    made = build(redis={"url": "redis://a:26379,b:26379/2", "sentinel": {"masterName": "main"}})
    env = env_of(sidecar_of(made))
    assert env["CLAIMQ_REDIS_URL"] == "redis+sentinel://a:26379,b:26379/main/2"
    assert "CLAIMQ_REDIS_SENTINEL_MASTER" not in env
    assert [one["name"] for one in pod_of(made)["volumes"]] == ["claimq-socket"]


def test_a_template_cannot_replace_a_volume_of_claimq(build: Build) -> None:
    secret = {"url": "rediss://r", "passwordSecretRef": {"name": "redis"}}
    found = pod_of(build(redis=secret))["volumes"]
    assert sorted(one["name"] for one in found) == sorted(RESERVED_VOLUMES)


def test_children_go_with_their_queue(build: Build, queue: Callable[..., QueueResource]) -> None:
    for body in (build().body, budget(queue())):
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("ReliableQueue", "thumbs", True)
        assert not owner["blockOwnerDeletion"]  # that would need a permission on finalizers


def test_a_rollout_may_remove_as_many_workers_as_the_queue_says(build: Build) -> None:
    def unavailable(**worker: int) -> object:
        return build(worker=worker).body["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"]

    assert (unavailable(), unavailable(maxUnavailable=1)) == ("25%", 1)


def test_the_budget_never_blocks_the_drain_of_a_node(queue: Callable[..., QueueResource]) -> None:
    spec = budget(queue())["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == ("25%", "AlwaysAllow")


def test_a_queues_own_sidecar_image_wins(build: Build) -> None:
    assert sidecar_of(build())["image"] == "registry.example/claimq-sidecar:1"
    assert sidecar_of(build(sidecar={"image": "mine:2"}))["image"] == "mine:2"
