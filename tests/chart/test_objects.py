"""What a release consists of, under the values that there are."""

import inspect
import json
import re
import tomllib
from collections import Counter
from typing import Any

import pytest
import yaml

import claimq_operator.settings
from claimq_operator.grants import RESTRICTIONS
from claimq_operator.settings import OperatorSettings
from claimq_operator.telemetry.http_server import PATHS
from testkit.repository.chart import FOLDER, Chart, of_kind, pods
from testkit.repository.tree import ROOT

EVERYTHING = ("valkey.enabled=true", "operator.replicas=2", 'imagePullSecrets=["registry"]')
ONE_TEAM = ('operator.namespaces=["media","print"]', "crds.install=false")


def test_helm_lint_finds_nothing(chart: Chart) -> None:
    said = chart.run("lint", "--strict", FOLDER)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "WARNING" not in said.stdout
    assert "ERROR" not in said.stdout


def test_a_release_serves_the_whole_cluster_unless_configured_otherwise(chart: Chart) -> None:
    kinds = Counter(one["kind"] for one in chart.objects())
    assert kinds == {
        "ServiceAccount": 1,
        "CustomResourceDefinition": 1,
        "ClusterRole": 3,
        "ClusterRoleBinding": 1,
        "Role": 2,
        "RoleBinding": 2,
        "Deployment": 1,
        "Lease": 1,
    }


def test_a_release_for_one_team_has_nothing_that_is_the_whole_clusters(chart: Chart) -> None:
    objects = chart.objects(*ONE_TEAM, 'operator.clusterId="east-1"')
    kinds = {"ServiceAccount", "Role", "RoleBinding", "Deployment", "Lease"}
    assert {one["kind"] for one in objects} == kinds
    assert {one["metadata"]["namespace"] for one in objects} == {"ns", "media", "print"}
    roles = {(one["metadata"]["namespace"], one["metadata"]["name"]) for one in of_kind(objects, "Role")}
    assert roles == {
        ("media", "release-claimq"),
        ("print", "release-claimq"),
        ("ns", "release-claimq-leader"),
    }
    for binding in of_kind(objects, "RoleBinding"):
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": "release-claimq", "namespace": "ns"}
        ]


def test_a_release_without_its_clusters_id_may_look_at_one_namespace(chart: Chart) -> None:
    objects = chart.objects(*ONE_TEAM)
    (role,) = [one for one in of_kind(objects, "Role") if one["metadata"]["namespace"] == "kube-system"]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]}
    ]
    assert not [
        one
        for one in chart.objects(*ONE_TEAM, 'operator.clusterId="east-1"')
        if one["metadata"]["namespace"] == "kube-system"
    ]


def secret_rules(objects: list[dict[str, Any]]) -> dict[tuple[str, str], list[str] | None]:
    """Kind and namespace of the roles that may get Secrets, with the names that they may."""
    return {
        (role["kind"], role["metadata"].get("namespace", "")): rule.get("resourceNames")
        for kind in ("ClusterRole", "Role")
        for role in of_kind(objects, kind)
        for rule in role["rules"]
        if "secrets" in rule["resources"]
    }


def test_secrets_can_be_restricted_by_name_and_by_namespace(chart: Chart) -> None:
    names, places = 'rbac.secrets.names=["redis"]', 'rbac.secrets.namespaces=["media","print"]'
    everywhere = {("ClusterRole", ""): None}
    assert secret_rules(chart.objects()) == everywhere
    assert secret_rules(chart.objects(names)) == {("ClusterRole", ""): ["redis"]}
    assert secret_rules(chart.objects(names, places)) == {
        ("Role", "media"): ["redis"],
        ("Role", "print"): ["redis"],
    }
    assert secret_rules(chart.objects(*ONE_TEAM, names)) == {
        ("Role", "media"): ["redis"],
        ("Role", "print"): ["redis"],
    }
    one_place = 'rbac.secrets.namespaces=["media"]'
    assert secret_rules(chart.objects(*ONE_TEAM, one_place)) == {("Role", "media"): None}


def test_the_words_for_worker_pods_are_the_operators(chart: Chart) -> None:
    words = json.dumps(list(RESTRICTIONS))
    (deployment,) = of_kind(chart.objects(f"operator.workersMay={words}"), "Deployment")
    env = {
        one["name"]: one.get("value")
        for one in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    given = {name: value for name, value in env.items() if value is not None}
    assert OperatorSettings.from_environment(given).workers_may == tuple(RESTRICTIONS)


def test_rights_are_the_same_in_a_namespace_as_in_the_cluster(chart: Chart) -> None:
    (whole,) = [
        one for one in of_kind(chart.objects(), "ClusterRole") if one["metadata"]["name"] == "release-claimq"
    ]
    (part, _) = [
        one
        for one in of_kind(chart.objects(*ONE_TEAM), "Role")
        if one["metadata"]["namespace"] in ("media", "print")
    ]
    assert whole["rules"] == part["rules"]


def test_the_operator_has_no_right_that_leads_to_others(chart: Chart) -> None:
    for objects in (chart.objects(), chart.objects(*ONE_TEAM)):
        for role in [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]:
            for rule in role["rules"]:
                granted = {(resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
                assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
                assert not {"escalate", "bind", "impersonate", "deletecollection", "delete"} & set(
                    rule["verbs"]
                ) or role["metadata"]["name"].endswith("-edit")
                assert not {verb for resource, verb in granted if resource == "secrets"} - {"get"}
                assert not {resource for resource, _ in granted} & {
                    "pods/exec",
                    "pods/ephemeralcontainers",
                    "nodes",
                    "nodes/proxy",
                    "serviceaccounts/token",
                    "roles",
                    "clusterroles",
                    "customresourcedefinitions",
                }


def test_only_the_operators_pod_has_a_token(chart: Chart) -> None:
    with_token = [name for name, pod in pods(chart.objects(*EVERYTHING)) if _has_token(pod)]
    assert with_token == ["Deployment/release-claimq"]
    (account,) = of_kind(chart.objects(), "ServiceAccount")
    assert account["automountServiceAccountToken"] is False


def _has_token(pod: dict[str, Any]) -> bool:
    return pod["spec"].get("automountServiceAccountToken") is not False


def test_every_pod_is_locked_down(chart: Chart) -> None:
    found = dict(pods(chart.objects(*EVERYTHING)))
    assert len(found) == 3
    for pod in found.values():
        assert pod["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
        }
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod["spec"].keys()
        assert {kind for volume in pod["spec"].get("volumes", ()) for kind in volume} <= {"name", "emptyDir"}
        for container in pod["spec"]["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "runAsNonRoot": True,
                "capabilities": {"drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
            }
            assert container["resources"]["requests"].keys() == {"cpu", "memory", "ephemeral-storage"}
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


def test_a_platform_may_choose_the_ids_of_pods(chart: Chart) -> None:
    ids = [f"podSecurityContext.{name}=null" for name in ("runAsUser", "runAsGroup", "fsGroup")]
    for pod in dict(pods(chart.objects(*EVERYTHING, *ids))).values():
        assert pod["spec"]["securityContext"].keys() == {"runAsNonRoot", "seccompProfile"}


def test_the_operator_understands_its_whole_environment(chart: Chart) -> None:
    (deployment,) = of_kind(chart.objects(*ONE_TEAM, 'operator.logLevel="debug"'), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one.get("value", "from-a-field") for one in container["env"]}
    known = set(re.findall(r"\"\"\"(CLAIMQ_[A-Z_]+)", inspect.getsource(claimq_operator.settings)))
    assert given.keys() <= known
    settings = OperatorSettings.from_environment(given)
    assert settings.sidecar_image == "claimq-sidecar:0.1.0"
    assert settings.sidecar_pull_policy == "IfNotPresent"
    assert settings.namespaces == ("media", "print")
    assert settings.own_namespace == settings.identity == "from-a-field"
    assert settings.lease_duration == 15.0
    assert settings.log_level == "debug"
    assert container["ports"][0]["containerPort"] == settings.http_port


def test_the_defaults_of_the_chart_are_the_operators(chart: Chart) -> None:
    (deployment,) = of_kind(chart.objects(), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {one["name"]: one.get("value", "") for one in container["env"]}
    defaults = OperatorSettings.from_environment({"CLAIMQ_SIDECAR_IMAGE": "claimq-sidecar:0.1.0"})
    named = OperatorSettings.from_environment(
        given | {"CLAIMQ_SIDECAR_PULL_POLICY": "", "CLAIMQ_LEASE_NAME": ""}
    )
    assert named == defaults


def test_the_lease_is_the_one_that_the_operator_may_hold(chart: Chart) -> None:
    objects = chart.objects(release="mine")
    (deployment,) = of_kind(objects, "Deployment")
    env = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    (lease,) = [one["value"] for one in env if one["name"] == "CLAIMQ_LEASE_NAME"]
    (role,) = [one for one in of_kind(objects, "Role") if one["metadata"]["namespace"] == "ns"]
    assert [lease] in [rule.get("resourceNames") for rule in role["rules"]]
    # It is the release's, so that an uninstall takes it along.
    assert [one["metadata"]["name"] for one in of_kind(objects, "Lease")] == [lease]


def test_probes_ask_for_what_the_operator_serves(chart: Chart) -> None:
    (deployment,) = of_kind(chart.objects(), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    asked = {
        container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    assert asked == {"/livez", "/readyz"}
    assert asked < set(PATHS)


def test_the_definition_is_the_repositorys(chart: Chart) -> None:
    source = yaml.safe_load((ROOT / "crds" / "reliablequeues.claimq.dev.yaml").read_text())
    (rendered,) = of_kind(chart.objects(), "CustomResourceDefinition")
    assert rendered["spec"] == source["spec"]
    assert rendered["metadata"]["name"] == source["metadata"]["name"]


@pytest.mark.parametrize(
    ("value", "annotations"), [("true", {"helm.sh/resource-policy": "keep"}), ("false", {})]
)
def test_the_definition_outlives_the_release_unless_configured_otherwise(
    chart: Chart, value: str, annotations: dict[str, str]
) -> None:
    (rendered,) = of_kind(chart.objects(f"crds.keep={value}"), "CustomResourceDefinition")
    assert rendered["metadata"]["annotations"] == annotations


def test_switches_take_things_away(chart: Chart) -> None:
    off = chart.objects("crds.install=false", "rbac.create=false", "serviceAccount.create=false")
    assert {one["kind"] for one in off} == {"Deployment", "Lease"}
    (deployment,) = of_kind(off, "Deployment")
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == "default"
    assert len(of_kind(chart.objects("rbac.userRoles=false"), "ClusterRole")) == 1


def test_valkey_keeps_its_items_on_a_volume(chart: Chart) -> None:
    (valkey,) = of_kind(
        chart.objects(
            "valkey.enabled=true", 'valkey.persistence.size="5Gi"', 'valkey.persistence.storageClass="fast"'
        ),
        "StatefulSet",
    )
    (claim,) = valkey["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"] == {"requests": {"storage": "5Gi"}}
    assert claim["spec"]["storageClassName"] == "fast"
    assert "volumes" not in valkey["spec"]["template"]["spec"]
    arguments = valkey["spec"]["template"]["spec"]["containers"][0]["args"]
    for name, value in (
        ("--appendonly", "yes"),
        ("--appendfsync", "always"),
        ("--maxmemory", "256mb"),
        ("--maxmemory-policy", "noeviction"),
    ):
        assert arguments[arguments.index(name) + 1] == value
    (without,) = of_kind(
        chart.objects("valkey.enabled=true", "valkey.persistence.enabled=false"), "StatefulSet"
    )
    assert "volumeClaimTemplates" not in without["spec"]
    assert without["spec"]["template"]["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]


def test_valkey_is_found_by_its_service(chart: Chart) -> None:
    objects = chart.objects("valkey.enabled=true")
    (service,), (valkey,) = of_kind(objects, "Service"), of_kind(objects, "StatefulSet")
    labels = valkey["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= service["spec"]["selector"].items()
    assert labels.items() >= valkey["spec"]["selector"]["matchLabels"].items()
    (queue,) = of_kind(objects, "ReliableQueue")
    assert queue["spec"]["redis"]["url"] == f"redis://{service['metadata']['name']}.ns.svc:6379/0"


def test_no_component_selects_the_pods_of_another(chart: Chart) -> None:
    objects = chart.objects("valkey.enabled=true")
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(objects)}
    for one in [*of_kind(objects, "Deployment"), *of_kind(objects, "StatefulSet")]:
        chosen = one["spec"]["selector"]["matchLabels"].items()
        assert [name for name, found in labels.items() if found.items() >= chosen] == [
            f"{one['kind']}/{one['metadata']['name']}"
        ]


def test_the_test_is_there_when_it_has_a_server(chart: Chart) -> None:
    def hooks(*values: str) -> list[str]:
        return sorted(
            one["kind"]
            for one in chart.objects(*values)
            if "helm.sh/hook" in one["metadata"].get("annotations", {})
        )

    assert hooks() == []
    assert hooks("valkey.enabled=true") == ["Pod", "ReliableQueue"]
    assert hooks('tests.redisUrl="redis://elsewhere:6379/0"') == ["Pod", "ReliableQueue"]


def test_the_tests_queue_is_where_the_operator_serves(chart: Chart) -> None:
    objects = chart.objects(*ONE_TEAM, 'tests.redisUrl="redis://r:6379/0"')
    (queue,), (pod,) = of_kind(objects, "ReliableQueue"), of_kind(objects, "Pod")
    assert queue["metadata"]["namespace"] == "media"
    env = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    assert env["QUEUE"] == f"media.{queue['metadata']['name']}"
    assert env["REDIS_URL"] == queue["spec"]["redis"]["url"] == "redis://r:6379/0"


def test_values_of_the_operators_pod_arrive(chart: Chart) -> None:
    (deployment,) = of_kind(
        chart.objects(
            "operator.replicas=3",
            'operator.nodeSelector={"disk":"fast"}',
            'operator.tolerations=[{"operator":"Exists"}]',
            'operator.affinity={"nodeAffinity":{}}',
            'operator.priorityClassName="high"',
            'operator.podLabels={"team":"a"}',
            'operator.podAnnotations={"note":"b"}',
            'operator.resources={"limits":{"memory":"1Gi"}}',
            f'operator.image={{"repository":"r/o","digest":"sha256:{"0" * 64}","pullPolicy":"Always"}}',
            'sidecar.image={"repository":"r/s","tag":"2","pullPolicy":"Never"}',
            'serviceAccount={"name":"mine","annotations":{"a":"b"}}',
        ),
        "Deployment",
    )
    pod = deployment["spec"]["template"]
    assert deployment["spec"]["replicas"] == 3
    assert pod["spec"]["nodeSelector"] == {"disk": "fast"}
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert pod["spec"]["affinity"] == {"nodeAffinity": {}}
    assert pod["spec"]["priorityClassName"] == "high"
    assert pod["metadata"]["labels"]["team"] == "a"
    assert pod["metadata"]["annotations"] == {"note": "b"}
    assert pod["spec"]["serviceAccountName"] == "mine"
    (container,) = pod["spec"]["containers"]
    assert container["image"] == f"r/o@sha256:{'0' * 64}"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"]["limits"]["memory"] == "1Gi"
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert env["CLAIMQ_SIDECAR_IMAGE"] == "r/s:2"
    assert env["CLAIMQ_SIDECAR_PULL_POLICY"] == "Never"


def test_operators_keep_apart_if_they_can(chart: Chart) -> None:
    (deployment,) = of_kind(chart.objects(), "Deployment")
    affinity = deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    (wish,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    chosen = wish["podAffinityTerm"]["labelSelector"]["matchLabels"].items()
    assert deployment["spec"]["template"]["metadata"]["labels"].items() >= chosen


@pytest.mark.parametrize("release", ["a", "claimq", "x" * 53, "claimq-" + "x" * 46])
def test_names_fit_whatever_the_release_is_called(chart: Chart, release: str) -> None:
    objects = chart.objects("valkey.enabled=true", release=release)
    for one in objects:
        name = one["metadata"]["name"]
        longest = {"ReliableQueue": 39, "StatefulSet": 52, "Deployment": 47}.get(one["kind"], 63)
        assert len(name) <= longest
        if one["kind"] != "CustomResourceDefinition":
            assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name)


def test_every_object_carries_the_labels_by_which_it_is_found(chart: Chart) -> None:
    for one in chart.objects("valkey.enabled=true"):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "claimq"
        assert labels["app.kubernetes.io/instance"] == "release"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"


def test_chart_operator_and_images_have_one_version() -> None:
    chart = yaml.safe_load((FOLDER / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]
    assert f"ARG VERSION={project['version']}\n" in (ROOT / "Dockerfile").read_text()
