"""Objects for Prometheus and Grafana: off by default, and they select what the chart and the operator make."""

import json
import re

import pytest
import yaml

from claimq_kubernetes.labels import selector_labels
from claimq_kubernetes.port import Json
from claimq_process.names import HEALTH_PORT_NAME
from testkit.repository.chart import FOLDER, Chart, of_kind, pods
from testkit.repository.tree import ROOT

KINDS = ("ServiceMonitor", "PodMonitor", "PrometheusRule")
PARTS = ("serviceMonitor", "podMonitor", "prometheusRule", "dashboard")
ALL = tuple(f"monitoring.{part}.enabled=true" for part in PARTS)
RUNBOOKS = ROOT / "docs" / "runbooks"


def alerts() -> list[Json]:
    """The alerts of the rule file."""
    (group,) = yaml.safe_load((FOLDER / "files/alerts.yaml").read_text())["groups"]
    rules: list[Json] = group["rules"]
    return rules


def only(chart: Chart, kind: str, *values: str) -> Json:
    (found,) = of_kind(chart.objects(*ALL, *values), kind)
    return found


@pytest.mark.parametrize("kind", [*KINDS, "ConfigMap", "Service"])
def test_no_object_for_monitoring_unless_it_is_enabled(chart: Chart, kind: str) -> None:
    assert of_kind(chart.objects(), kind) == []


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_enabled_by_itself(chart: Chart, part: str) -> None:
    before = {(one["kind"], one["metadata"]["name"]) for one in chart.objects()}
    after = {
        (one["kind"], one["metadata"]["name"]) for one in chart.objects(f"monitoring.{part}.enabled=true")
    }
    assert len(after - before) == (2 if part == "serviceMonitor" else 1)


def test_the_service_monitor_selects_the_operators_port(chart: Chart) -> None:
    monitor, service = only(chart, "ServiceMonitor"), only(chart, "Service")
    assert service["metadata"]["labels"].items() >= monitor["spec"]["selector"]["matchLabels"].items()
    (operator,) = [pod for name, pod in pods(chart.objects(*ALL)) if name.startswith("Deployment/")]
    assert operator["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    named = {one["name"] for one in operator["spec"]["containers"][0]["ports"]}
    assert port["targetPort"] in named
    assert endpoint["port"] == port["name"]
    assert endpoint["honorLabels"], "otherwise the namespace of a series is the operator's, not the queue's"


def test_the_pod_monitor_selects_the_sidecars_of_workers(chart: Chart) -> None:
    spec = only(chart, "PodMonitor")["spec"]
    labels = selector_labels("thumbs")
    assert labels.items() >= spec["selector"]["matchLabels"].items()
    assert {one["key"] for one in spec["selector"]["matchExpressions"]} <= labels.keys()
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint["port"] == HEALTH_PORT_NAME
    (relabeling,) = endpoint["relabelings"]
    label = next(key for key, value in labels.items() if value == "thumbs")
    source = "__meta_kubernetes_pod_label_" + re.sub(r"[^a-zA-Z0-9_]", "_", label)
    assert relabeling == {"sourceLabels": [source], "targetLabel": "name"}
    assert spec["namespaceSelector"] == {"any": True}


def test_the_pod_monitor_is_limited_to_the_operators_namespaces(chart: Chart) -> None:
    spec = only(chart, "PodMonitor", 'operator.namespaces=["a","b"]')["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["a", "b"]}


def test_the_rule_has_the_alerts_of_the_file(chart: Chart) -> None:
    (group,) = only(chart, "PrometheusRule")["spec"]["groups"]
    assert group["rules"] == alerts()


def test_each_alert_links_to_its_runbook(chart: Chart) -> None:
    url = 'monitoring.prometheusRule.runbookUrl="https://docs.example/runbooks/"'
    (group,) = only(chart, "PrometheusRule", url)["spec"]["groups"]
    index = (RUNBOOKS / "README.md").read_text()
    for rule in group["rules"]:
        page = rule["annotations"]["runbook"]
        assert rule["annotations"]["runbook_url"] == f"https://docs.example/runbooks/{page}"
        assert (RUNBOOKS / page).read_text().startswith(f"# {rule['alert']}\n")
        assert f"| {rule['alert']} | {rule['labels']['severity']} | [" in index
    assert {path.name for path in RUNBOOKS.iterdir()} == {
        "README.md",
        *(rule["annotations"]["runbook"] for rule in group["rules"]),
    }


def test_the_dashboard_is_the_file(chart: Chart) -> None:
    made = only(chart, "ConfigMap")
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(made["data"]["claimq.json"]) == json.loads(
        (FOLDER / "files/dashboard.json").read_text()
    )


def test_labels_select_the_objects_for_a_prometheus(chart: Chart) -> None:
    for part, kind in zip(PARTS, KINDS, strict=False):
        named = f'monitoring.{part}.labels={{"release":"main"}}'
        assert only(chart, kind, named)["metadata"]["labels"]["release"] == "main"
