"""Whatever a field of a template is: it is refused with a reason, or a Deployment can be made of it."""

from collections.abc import Callable
from typing import Any

import pytest

from claimq_control.manifest.pod_template import CONTAINER, POD
from claimq_kubernetes.queue_resource import QueueResource
from claimq_operator.children.deployment import deployment
from claimq_operator.children.restrictions import refused
from claimq_operator.settings import OperatorSettings

ODD: list[Any] = [
    *(None, True, 1, -1.5, "", "x", [], {}),
    *([None], [1], ["x"], [[]], [{}], [{"name": None}], [{"name": 1}], [{"name": "x", "hostPath": "y"}]),
    *({"name": "x"}, {"preStop": "x"}, {"preStop": {"httpGet": ["x"]}}, {"httpGet": {"host": 1}}),
    *(
        {"privileged": "x"},
        {"capabilities": "x"},
        {"capabilities": {"add": "x", "drop": 1}},
        {"env": {"a": 1}},
    ),
]


def survives(queue: Callable[..., QueueResource], settings: OperatorSettings, pod: dict[str, Any]) -> None:
    resource = queue(worker={"template": {"spec": pod}})
    if resource.spec is None:
        assert all(problem.field.startswith("spec.worker.template.spec.") for problem in resource.problems)
    else:
        refused(resource.spec.worker.template, ())
        assert deployment(resource, resource.spec, settings).body


@pytest.mark.parametrize("name", [*POD, "containers", "initContainers", "ephemeralContainers", "volumes"])
def test_a_field_of_the_pod(
    queue: Callable[..., QueueResource], settings: OperatorSettings, name: str
) -> None:
    for value in ODD:
        survives(queue, settings, {name: value})


@pytest.mark.parametrize("name", CONTAINER)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_field_of_a_container(
    queue: Callable[..., QueueResource], settings: OperatorSettings, kind: str, name: str
) -> None:
    for container in ("worker", "mesh"):
        for value in ODD:
            survives(queue, settings, {kind: [{"name": container, name: value}]})
