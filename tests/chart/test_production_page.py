"""docs/howto/production.md: the values of the chart and the fields of the manifest that it names."""

import re

from claimq_control.manifest.declaring import walk
from claimq_control.manifest.queue_spec import QueueSpec
from testkit.repository.chart import Chart, of_kind
from testkit.repository.tree import ROOT

CODE = set(re.findall(r"`([^`]+)`", (ROOT / "docs" / "howto" / "production.md").read_text()))


def test_the_chart_has_the_values_of_the_page(chart: Chart) -> None:
    policies, replicas = "networkPolicy.enabled", "operator.replicas=2"
    assert {policies, replicas} <= CODE
    objects = chart.objects(f"{policies}=true", replicas)
    assert of_kind(objects, "NetworkPolicy")
    assert [one["spec"]["replicas"] for one in of_kind(objects, "Deployment")] == [2]


def test_the_manifest_has_the_fields_of_the_page() -> None:
    fields = {"worker.drainTimeout", "failedItems"}
    assert fields <= CODE
    assert {f"spec.{field}" for field in fields} <= dict(walk(QueueSpec, "spec")).keys()
