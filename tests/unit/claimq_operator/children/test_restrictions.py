"""Fields of a pod template that need a setting of the operator."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, plan
from claimq_control.manifest import TemplateMetadata, TemplateSpec
from claimq_operator.children.restrictions import refused
from claimq_operator.grants import RESTRICTIONS
from claimq_operator.settings import OperatorSettings
from testkit.kubernetes.observations import objects_seen

Look = Callable[..., Observed]
PATH = "spec.worker.template.spec"


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "log"}, {"name": "worker", **fields}]}


def context(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


PROBE = {"httpGet": {"host": "10.0.0.1", "port": 1}}
FORBIDDEN: list[tuple[str, str, dict[str, Any]]] = [
    ("HostNetwork", "hostNetwork", {"hostNetwork": True}),
    ("HostPID", "hostPID", {"hostPID": True}),
    ("HostIPC", "hostIPC", {"hostIPC": True}),
    (
        "HostPath",
        "volumes[1].hostPath",
        {"volumes": [{"name": "a"}, {"name": "b", "hostPath": {"path": "/"}}]},
    ),
    ("HostPorts", "containers[1].ports[0].hostPort", container(ports=[{"containerPort": 1, "hostPort": 1}])),
    ("ServiceAccount", "serviceAccountName", {"serviceAccountName": "admin"}),
    ("ServiceAccount", "serviceAccount", {"serviceAccount": "admin"}),
    ("Root", "securityContext.runAsNonRoot", {"securityContext": {"runAsNonRoot": False}}),
    ("Root", "securityContext.runAsUser", {"securityContext": {"runAsUser": 0}}),
    ("Root", "containers[1].securityContext.runAsUser", context(runAsUser=0)),
    (
        "Root",
        "initContainers[0].securityContext.runAsNonRoot",
        {"initContainers": [{"name": "a", "securityContext": {"runAsNonRoot": False}}]},
    ),
    ("Root", "securityContext.runAsGroup", {"securityContext": {"runAsGroup": 0}}),
    ("Root", "containers[1].securityContext.runAsGroup", context(runAsGroup=0)),
    ("Root", "securityContext.fsGroup", {"securityContext": {"fsGroup": 0}}),
    ("Root", "securityContext.supplementalGroups", {"securityContext": {"supplementalGroups": [7, 0]}}),
    ("Privileged", "containers[1].securityContext.privileged", context(privileged=True)),
    (
        "Privileged",
        "containers[1].securityContext.allowPrivilegeEscalation",
        context(allowPrivilegeEscalation=True),
    ),
    (
        "Privileged",
        "securityContext.windowsOptions.hostProcess",
        {"securityContext": {"windowsOptions": {"hostProcess": True}}},
    ),
    ("Capabilities", "containers[1].securityContext.capabilities.add", context(capabilities={"add": ["A"]})),
    ("Capabilities", "containers[1].securityContext.capabilities.drop", context(capabilities={"drop": []})),
    (
        "Capabilities",
        "initContainers[0].securityContext.capabilities.drop",
        {"initContainers": [{"name": "a", "securityContext": {"capabilities": {"drop": ["NET_RAW"]}}}]},
    ),
    (
        "Unconfined",
        "containers[1].securityContext.seccompProfile",
        context(seccompProfile={"type": "Unconfined"}),
    ),
    (
        "Unconfined",
        "containers[1].securityContext.appArmorProfile",
        context(appArmorProfile={"type": "Unconfined"}),
    ),
    ("Unconfined", "containers[1].securityContext.procMount", context(procMount="Unmasked")),
    ("Unconfined", "securityContext.seLinuxOptions", {"securityContext": {"seLinuxOptions": {"role": "r"}}}),
    (
        "Unconfined",
        "securityContext.sysctls",
        {"securityContext": {"sysctls": [{"name": "a", "value": "b"}]}},
    ),
    ("ProbeHost", "containers[1].livenessProbe.httpGet.host", container(livenessProbe=PROBE)),
    ("ProbeHost", "containers[1].lifecycle.preStop.httpGet.host", container(lifecycle={"preStop": PROBE})),
    ("Volumes", "volumes[0].nfs", {"volumes": [{"name": "a", "nfs": {"server": "s", "path": "/"}}]}),
    ("Volumes", "volumes[0].gitRepo", {"volumes": [{"name": "a", "gitRepo": {"repository": "r"}}]}),
    ("Volumes", "volumes[0].image", {"volumes": [{"name": "a", "image": {"reference": "r"}}]}),
    ("Priority", "priorityClassName", {"priorityClassName": "system-node-critical"}),
    ("Priority", "priority", {"priority": 0}),
    ("Priority", "preemptionPolicy", {"preemptionPolicy": "Never"}),
    ("Placement", "nodeName", {"nodeName": "control-plane"}),
    ("Placement", "schedulerName", {"schedulerName": "mine"}),
    ("Placement", "runtimeClassName", {"runtimeClassName": "host"}),
    ("Placement", "tolerations[0]", {"tolerations": [{"operator": "Exists"}]}),
    ("Placement", "tolerations[0]", {"tolerations": [{"key": "node-role.kubernetes.io/control-plane"}]}),
    ("OtherFields", "schedulingGroup", {"schedulingGroup": {"podGroupName": "a"}}),
    ("OtherFields", "containers[1].user", container(user={"linux": {}})),
    ("OtherFields", "containers[1].securityContext.new", context(new=True)),
]


@pytest.mark.parametrize(("word", "field", "pod"), FORBIDDEN, ids=[f"{one[0]}-{one[1]}" for one in FORBIDDEN])
def test_a_restricted_field_is_rejected_by_name_and_allowed_by_its_word(
    word: str, field: str, pod: dict[str, Any]
) -> None:
    said = refused(TemplateSpec(spec=pod), ())
    assert said.startswith(f"{PATH}.{field} ({word}): ")
    assert "operator.workersMay" in said
    assert refused(TemplateSpec(spec=pod), (word,)) == ""
    assert refused(TemplateSpec(spec=pod), [other for other in RESTRICTIONS if other != word]) == said


def test_every_word_is_shown_to_be_needed() -> None:
    assert {word for word, _, _ in FORBIDDEN} == set(RESTRICTIONS)


def test_an_annotation_for_apparmor_counts_too() -> None:
    key = "container.apparmor.security.beta.kubernetes.io/worker"
    template = TemplateSpec(metadata=TemplateMetadata(annotations={key: "unconfined"}))
    assert "(Unconfined)" in refused(template, ())
    assert refused(TemplateSpec(metadata=TemplateMetadata(annotations={key: "runtime/default"})), ()) == ""


def test_all_rejected_fields_are_reported_at_once() -> None:
    said = refused(TemplateSpec(spec={"hostPID": True, "hostIPC": True, "hostNetwork": True}), ("HostIPC",))
    assert said.startswith(f"{PATH}.hostNetwork (HostNetwork), {PATH}.hostPID (HostPID): ")


HARMLESS: list[dict[str, Any]] = [
    {},
    {"hostNetwork": False, "serviceAccountName": "default", "securityContext": {"runAsUser": 7}},
    {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 5}]},
    {"volumes": [{"name": "a", "emptyDir": {}, "nfs": None}], **container(ports=[{"containerPort": 80}])},
    {"securityContext": {"runAsGroup": 7, "fsGroup": 7, "supplementalGroups": [7]}},
    context(capabilities={"drop": ["NET_RAW", "ALL"]}),
    context(capabilities={"drop": ["ALL"]}, seccompProfile={"type": "RuntimeDefault"}),
    {"volumes": "none", "containers": "none", "securityContext": "none"},
    {"containers": [{"name": "a", "securityContext": 1, "ports": 1, "lifecycle": 1, "livenessProbe": 1}]},
]


@pytest.mark.parametrize("pod", HARMLESS)
def test_all_other_fields_pass_or_are_left_to_the_api_server(pod: dict[str, Any]) -> None:
    assert refused(TemplateSpec(spec=pod), ()) == ""


def test_a_queue_with_a_forbidden_template_gets_no_pods(observed: Look, settings: OperatorSettings) -> None:
    worker = {"template": {"spec": {"hostNetwork": True}}}
    for replicas, wanted in ((None, None), (0, None), (3, None)):
        look = observed(replicas=replicas, main=9, busy=3, worker=worker)
        decided = plan(look, Memory(), now=0.0, clock=0.0)
        assert (decided.applies, decided.replicas) == (False, wanted)
        stalled = next(one for one in decided.status["conditions"] if one["type"] == "Stalled")
        assert (stalled["status"], stalled["reason"]) == ("True", "TemplateForbidden")
    look = observed(replicas=0, main=9, worker=worker)
    allowed = replace(settings, workers_may=("HostNetwork",))
    assert objects_seen(look, allowed).refusal is None


@pytest.mark.parametrize(
    "pod",
    [
        {"securityContext": {"supplementalGroups": [0]}},
        {"securityContext": {"fsGroup": 0, "runAsNonRoot": None}},
        context(runAsGroup=0, allowPrivilegeEscalation=None),
        context(capabilities={"drop": [], "add": None}),
        context(capabilities={"drop": [None]}),
    ],
)
def test_no_deployment_is_made_with_root_groups_or_kept_capabilities(
    pod: dict[str, Any], observed: Look, settings: OperatorSettings
) -> None:
    look = observed(replicas=None, main=9, worker={"template": {"spec": pod}})
    assert not plan(look, Memory(), now=0.0, clock=0.0).applies
    allowed = replace(settings, workers_may=("Root", "Capabilities"))
    assert objects_seen(look, allowed).refusal is None
