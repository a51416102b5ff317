"""Values that cannot be meant: refused before anything is installed, by their names."""

import json
from typing import Any

import pytest
import yaml

from testkit.repository.chart import FOLDER, Chart

WRONG = {
    "a misspelt value": ("operator.replica=2", "Additional property replica is not allowed"),
    "a misspelt section": ("operators={}", "Additional property operators is not allowed"),
    "a value in the wrong place": ("replicas=2", "Additional property replicas is not allowed"),
    "no operator": ("operator.replicas=0", "operator.replicas: Must be greater than or equal to 1"),
    "half an operator": ("operator.replicas=1.5", "operator.replicas: Invalid type. Expected: integer"),
    "a switch in quotes": ('valkey.enabled="yes"', "valkey.enabled: Invalid type. Expected: boolean"),
    "an unknown log level": ('operator.logLevel="loud"', '"debug", "info", "warn", "error"'),
    "a pull policy in lower case": ('sidecar.image.pullPolicy="always"', '"Always", "IfNotPresent", "Never"'),
    "an image with its tag": ('operator.image.tag="a b"', "operator.image.tag: Does not match pattern"),
    "a digest that is none": ('operator.image.digest="abc"', "operator.image.digest: Does not match"),
    "a namespace in capitals": ('operator.namespaces=["Media"]', "operator.namespaces.0: Does not match"),
    "a queue's name for no namespace": (
        'operator.queueNames=["orders"]',
        "operator.queueNames.0: Does not match",
    ),
    "a word that worker pods have not": ('operator.workersMay=["root"]', "operator.workersMay.0"),
    "a host for no namespace": (
        'operator.passwordHosts=["redis"]',
        "operator.passwordHosts.0: Does not match",
    ),
    "namespaces as one text": (
        'operator.namespaces="media"',
        "operator.namespaces: Invalid type. Expected: array",
    ),
    "a duration without unit": ('operator.leaseDuration="15"', "operator.leaseDuration: Does not match"),
    "a quantity in MB": (
        'operator.resources.limits.memory="512MB"',
        "resources.limits.memory: Does not match",
    ),
    "an unknown section of resources": (
        "operator.resources.claims=[]",
        "operator.resources: Additional property claims is not allowed",
    ),
    "a size without unit": ('valkey.persistence.size="10"', "valkey.persistence.size: Does not match"),
    "a memory in Mi": ('valkey.maxMemory="256Mi"', "valkey.maxMemory: Does not match"),
    "root as the user of pods": ("podSecurityContext.runAsUser=0", "podSecurityContext.runAsUser: Must be"),
    "a test's server without scheme": ('tests.redisUrl="redis:6379"', "tests.redisUrl: Does not match"),
    "a storage class without storage": (
        'valkey.persistence={"enabled":false,"storageClass":"fast"}',
        "enable persistence, or remove the storage class",
    ),
    "a peer with a misspelt selector": (
        'networkPolicy={"enabled":true,"metricsFrom":[{"podSelektor":{}}]}',
        "Additional property podSelektor is not allowed",
    ),
    "peers of a policy that is off": (
        'networkPolicy.metricsFrom=[{"podSelector":{}}]',
        "networkPolicy.enabled is false, so nothing is closed",
    ),
    "producers of no server": (
        ["networkPolicy.enabled=true", 'networkPolicy.valkeyFrom=[{"podSelector":{}}]'],
        "the release has no Valkey to close",
    ),
    "peers of no endpoint": (
        ["networkPolicy.enabled=true", 'networkPolicy.producersFrom=[{"podSelector":{}}]'],
        "the release has no endpoint for producers to close",
    ),
    "a wait for queues without unit": ('crds.deleteTimeout="120"', "crds.deleteTimeout: Does not match"),
    "rights for everybody's service account": (
        "serviceAccount.create=false",
        "give the name of a service account that is there",
    ),
    "one team's uninstall for all": (
        ['operator.namespaces=["media"]', "crds.keep=false"],
        "set crds.keep to true, or crds.install to false",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_value_is_refused_by_name(chart: Chart, mistake: str) -> None:
    values, says = WRONG[mistake]
    said = chart.template(*([values] if isinstance(values, str) else values))
    assert said.returncode != 0
    assert says in said.stderr


def _closed(schema: dict[str, Any], path: str = "") -> None:
    if "properties" in schema:
        assert schema["additionalProperties"] is False, path
        for name, below in schema["properties"].items():
            _closed(below, f"{path}.{name}")


def _check(schema: dict[str, Any], value: Any, path: str) -> None:
    if "properties" in schema:
        assert schema["properties"].keys() - (set() if path else {"enabled", "global"}) == value.keys(), path
        for name, below in value.items():
            _check(schema["properties"][name], below, f"{path}.{name}")


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = json.loads((FOLDER / "values.schema.json").read_text())
    _closed(schema)
    values = yaml.safe_load((FOLDER / "values.yaml").read_text())
    for section in (values["operator"], values["valkey"]):
        # What an operator of the chart may leave out, its values have.
        for kind in ("requests", "limits"):
            section["resources"].setdefault(kind, {})
    _check(schema, values, "")
