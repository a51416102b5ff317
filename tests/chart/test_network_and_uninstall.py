"""What a release closes to other pods, what it keeps while nodes are drained, and what its uninstall does first."""

import json
import re

import pytest
import yaml

from claimq_kubernetes.labels import selector_labels
from claimq_kubernetes.port import Json
from claimq_process.names import HEALTH_PORT
from testkit.repository.chart import FOLDER, Chart, of_kind, pods
from testkit.repository.tree import ROOT

CLOSED = ("networkPolicy.enabled=true", "valkey.enabled=true", "producers.enabled=true")


def policies(chart: Chart, *values: str) -> dict[str, Json]:
    """By the component whose pods they close."""
    found = of_kind(chart.objects(*values), "NetworkPolicy")
    component = "app.kubernetes.io/component"
    return {one["spec"]["podSelector"]["matchLabels"][component]: one["spec"] for one in found}


def test_nothing_is_closed_unless_it_is_asked_for(chart: Chart) -> None:
    assert policies(chart, "valkey.enabled=true") == {}


def test_the_operators_port_is_closed_but_for_those_who_are_named(chart: Chart) -> None:
    closed = policies(chart, *CLOSED)["operator"]
    assert (closed["policyTypes"], closed.keys() & {"ingress", "egress"}) == (["Ingress"], set())
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    named = f"networkPolicy.metricsFrom={json.dumps([peer])}"
    (rule,) = policies(chart, *CLOSED, named)["operator"]["ingress"]
    assert rule == {"from": [peer], "ports": [{"port": "http", "protocol": "TCP"}]}


def test_valkey_is_open_to_operator_test_and_workers(chart: Chart) -> None:
    (rule,) = policies(chart, *CLOSED)["valkey"]["ingress"]
    ours, workers = rule["from"]
    for name, pod in pods(chart.objects(*CLOSED)):
        if name.startswith(("Deployment", "Pod")):
            assert pod["metadata"]["labels"].items() >= ours["podSelector"]["matchLabels"].items()
    assert workers["namespaceSelector"] == {}
    assert selector_labels("q").items() >= workers["podSelector"]["matchLabels"].items()
    assert {one["key"] for one in workers["podSelector"]["matchExpressions"]} <= selector_labels("q").keys()


def test_a_policy_closes_the_pods_of_its_component_alone(chart: Chart) -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods(chart.objects(*CLOSED))}
    for one in of_kind(chart.objects(*CLOSED), "NetworkPolicy"):
        chosen = one["spec"]["podSelector"]["matchLabels"].items()
        assert len([name for name, found in labels.items() if found.items() >= chosen]) == 1


def test_valkey_opens_no_connection_and_the_operator_may_open_any(chart: Chart) -> None:
    found = policies(chart, *CLOSED)
    assert (found["valkey"]["policyTypes"], "egress" in found["valkey"]) == (["Ingress", "Egress"], False)
    assert found["operator"]["policyTypes"] == ["Ingress"]


def test_producers_are_let_in_by_name(chart: Chart) -> None:
    named = 'networkPolicy.valkeyFrom=[{"podSelector":{"matchLabels":{"app":"shop"}}}]'
    (rule,) = policies(chart, *CLOSED, named)["valkey"]["ingress"]
    assert rule["from"][2] == {"podSelector": {"matchLabels": {"app": "shop"}}}


def test_the_policy_for_worker_pods_in_the_docs_is_about_them() -> None:
    page = (ROOT / "docs" / "operator.md").read_text()
    (text,) = re.findall(r"```yaml\n(.*?kind: NetworkPolicy.*?)```", page, re.DOTALL)
    spec = yaml.safe_load(text)["spec"]
    chosen = spec["podSelector"]
    assert selector_labels("q").items() >= chosen["matchLabels"].items()
    assert {one["key"] for one in chosen["matchExpressions"]} <= selector_labels("q").keys()
    (rule,) = spec["ingress"]
    assert rule["ports"] == [{"port": HEALTH_PORT, "protocol": "TCP"}]


@pytest.mark.parametrize(("replicas", "budgets"), [(1, 0), (2, 1)])
def test_nodes_are_drained_one_operator_at_a_time(chart: Chart, replicas: int, budgets: int) -> None:
    objects = chart.objects(f"operator.replicas={replicas}")
    found = of_kind(objects, "PodDisruptionBudget")
    assert len(found) == budgets
    (deployment,) = of_kind(objects, "Deployment")
    for one in found:
        assert one["spec"] == {"maxUnavailable": 1, "selector": deployment["spec"]["selector"]}


def hooks(chart: Chart, *values: str) -> list[Json]:
    """What an uninstall makes before it takes anything away, in the order in which it does."""
    found = [
        one
        for one in chart.objects(*values)
        if one["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"
    ]
    return sorted(found, key=lambda one: int(one["metadata"]["annotations"]["helm.sh/hook-weight"]))


def test_an_uninstall_that_keeps_the_queues_does_nothing_to_them(chart: Chart) -> None:
    assert hooks(chart) == hooks(chart, "crds.keep=false", "crds.install=false") == []


def test_an_uninstall_that_keeps_nothing_deletes_the_queues_first(chart: Chart) -> None:
    found = hooks(chart, "crds.keep=false", 'imagePullSecrets=["registry"]')
    assert [one["kind"] for one in found] == ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"]
    for one in found:
        # The right to delete goes with an uninstall that succeeds; the job of a failure stays for its log.
        policy = one["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        assert policy == "before-hook-creation,hook-succeeded"
    role, job = found[1], found[3]
    assert [(rule["resources"], rule["verbs"]) for rule in role["rules"]] == [
        (["reliablequeues"], ["list", "delete"]),
        (["deployments"], ["list"]),
        (["poddisruptionbudgets"], ["list"]),
        (["leases"], ["list", "delete"]),
    ]
    assert role["rules"][3]["resourceNames"] == ["queues.claimq.dev"]
    pod = job["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == found[0]["metadata"]["name"] != "release-claimq"
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (container,) = pod["containers"]
    assert container["args"] == [(FOLDER / "files" / "delete_queues.py").read_text()]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
