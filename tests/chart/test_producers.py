"""The endpoint for producers in the chart."""

import json

from claimq_kubernetes.port import Json
from testkit.repository.chart import Chart, of_kind, pods

ON = "producers.enabled=true"
NAME = "release-claimq-producers"


def endpoint(objects: list[Json]) -> Json:
    """The spec of its pods."""
    (spec,) = [pod["spec"] for name, pod in pods(objects) if name == f"Deployment/{NAME}"]
    return dict(spec)


def test_there_is_no_endpoint_for_producers_unless_it_is_enabled(chart: Chart) -> None:
    assert not [one for one in chart.objects() if "producers" in one["metadata"]["name"]]


def test_the_endpoint_for_producers_serves_nothing_else_under_its_own_names(chart: Chart) -> None:
    (container,) = endpoint(chart.objects(ON, 'producers.hostnames=["queues.example.com"]'))["containers"]
    names = {one.partition("=")[2] for one in container["args"] if one.startswith("--hostname=")}
    service = f"{NAME}.ns"
    assert names == {NAME, service, f"{service}.svc", f"{service}.svc.cluster.local", "queues.example.com"}
    assert "--producers" in container["args"]
    assert "--actions" not in container["args"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_endpoint_for_producers_may_list_queues_and_read_their_secrets_only(chart: Chart) -> None:
    roles = [
        one for one in of_kind(chart.objects(ON), "ClusterRole") if one["metadata"]["name"].startswith(NAME)
    ]
    rights = {
        (resource, verb)
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert rights == {
        ("reliablequeues", "list"),
        ("secrets", "get"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    }


def test_the_endpoint_for_producers_serves_the_namespaces_of_the_release(chart: Chart) -> None:
    objects = chart.objects(ON, 'operator.namespaces=["media"]')
    (container,) = endpoint(objects)["containers"]
    assert "--only-namespace=media" in container["args"]
    (role,) = [one for one in of_kind(objects, "Role") if one["metadata"]["name"] == NAME]
    assert role["metadata"]["namespace"] == "media"


def test_the_endpoint_for_producers_is_closed_but_for_those_who_are_named(chart: Chart) -> None:
    def policy(*values: str) -> Json:
        objects = chart.objects(ON, "networkPolicy.enabled=true", *values)
        (found,) = [one for one in of_kind(objects, "NetworkPolicy") if one["metadata"]["name"] == NAME]
        return dict(found["spec"])

    closed = policy()
    assert (closed["policyTypes"], "ingress" in closed) == (["Ingress"], False)
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}}
    (rule,) = policy(f"networkPolicy.producersFrom={json.dumps([peer])}")["ingress"]
    assert rule == {"from": [peer], "ports": [{"port": "http", "protocol": "TCP"}]}


def test_several_pods_of_the_endpoint_for_producers_are_evicted_one_by_one(chart: Chart) -> None:
    def budgets(*values: str) -> list[Json]:
        return list(of_kind(chart.objects(*values), "PodDisruptionBudget"))

    assert budgets(ON) == budgets("producers.replicas=2") == []
    (budget,) = budgets(ON, "producers.replicas=2")
    assert (budget["metadata"]["name"], budget["spec"]["maxUnavailable"]) == (NAME, 1)
    selector = budget["spec"]["selector"]["matchLabels"]
    assert selector["app.kubernetes.io/component"] == "producers"
    assert len(budgets(ON, "producers.replicas=2", "operator.replicas=2")) == 2
