"""Fields of a pod template that are rejected unless a setting of the operator allows them. Pure.

The operator creates the pods, so permission to create a queue must not grant permission to create any pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from claimq_control.manifest import TemplateSpec
from claimq_control.manifest.pod_template import POD_PATH
from claimq_operator.grants import FIELDS

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECURITY: tuple[tuple[str, str, Callable[[object], bool]], ...] = (
    ("Root", "runAsNonRoot", lambda value: value is False),
    ("Root", "runAsUser", lambda value: value == 0),
    ("Root", "runAsGroup", lambda value: value == 0),
    ("Root", "fsGroup", lambda value: value == 0),
    ("Root", "supplementalGroups", lambda value: isinstance(value, list) and 0 in value),
    ("Privileged", "privileged", bool),
    ("Privileged", "allowPrivilegeEscalation", bool),
    ("Privileged", "windowsOptions.hostProcess", bool),
    ("Capabilities", "capabilities.add", bool),
    ("Capabilities", "capabilities.drop", lambda value: isinstance(value, list) and "ALL" not in value),
    ("Unconfined", "seccompProfile.type", lambda value: value == "Unconfined"),
    ("Unconfined", "appArmorProfile.type", lambda value: value == "Unconfined"),
    ("Unconfined", "procMount", lambda value: value not in (None, "", "Default")),
    ("Unconfined", "seLinuxOptions", bool),
    ("Unconfined", "sysctls", bool),
)
"""Fields of a security context: the restriction, the field, and whether a value needs the restriction lifted."""
Found = tuple[str, str]
"""A word of RESTRICTIONS, and the path of the field that needs it."""

VOLUME_TYPES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
"""The types of volumes that the Pod Security level restricted allows."""
_CONDITION = "node.kubernetes.io/"
"""Taints whose keys begin so stand for a condition of the node. Other taints keep a node for some users."""
POD_FIELDS = frozenset(
    [
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeSelector",
        "os",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
    ]
)
"""Fields of a pod that are allowed, or whose values are checked. All others need a word, also those of later releases
of Kubernetes."""
CONTAINER_FIELDS = frozenset(
    [
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    ]
)
"""The same for a container."""
SECURITY_FIELDS = frozenset(
    [
        "allowPrivilegeEscalation",
        "appArmorProfile",
        "capabilities",
        "fsGroup",
        "fsGroupChangePolicy",
        "privileged",
        "procMount",
        "readOnlyRootFilesystem",
        "runAsGroup",
        "runAsNonRoot",
        "runAsUser",
        "seLinuxChangePolicy",
        "seLinuxOptions",
        "seccompProfile",
        "supplementalGroups",
        "supplementalGroupsPolicy",
        "sysctls",
        "windowsOptions",
    ]
)
"""The same for a security context of a pod or a container."""


def refused(template: TemplateSpec, allowed: Collection[str]) -> str:
    """One sentence with every field that is not allowed and the fix; empty if all are allowed."""
    matches = [field for field in (*_pod(template.spec), *_annotations(template)) if field[0] not in allowed]
    if not matches:
        return ""
    fields = ", ".join(f"{field} ({word})" for word, field in dict.fromkeys(matches))
    words = ", ".join(dict.fromkeys(word for word, _ in matches))
    return (
        f"{fields}: not allowed for worker pods; remove it, or allow it with operator.workersMay in the operator's "
        f"chart ({words})"
    )


def _pod(pod: Mapping[str, object]) -> Iterator[Found]:
    for word, name in (("HostNetwork", "hostNetwork"), ("HostPID", "hostPID"), ("HostIPC", "hostIPC")):
        if pod.get(name):
            yield word, f"{POD_PATH}.{name}"
    for name in ("serviceAccountName", "serviceAccount"):
        if pod.get(name) not in (None, "", "default"):
            yield "ServiceAccount", f"{POD_PATH}.{name}"
    yield from _others(pod, POD_FIELDS.union(*FIELDS.values()), POD_PATH)
    yield from _placement(pod)
    yield from _security(_map(pod.get("securityContext")), f"{POD_PATH}.securityContext")
    yield from _volumes(pod)
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(_list(pod.get(kind))):
            yield from _container(container, f"{POD_PATH}.{kind}[{index}]")


def _placement(pod: Mapping[str, object]) -> Iterator[Found]:
    """The fields that choose nodes and priorities."""
    for word, names in FIELDS.items():
        yield from ((word, f"{POD_PATH}.{name}") for name in names if pod.get(name) is not None)
    for index, toleration in enumerate(_list(pod.get("tolerations"))):
        if not str(toleration.get("key") or "").startswith(_CONDITION):
            yield "Placement", f"{POD_PATH}.tolerations[{index}]"


def _volumes(pod: Mapping[str, object]) -> Iterator[Found]:
    """The volumes whose types are not allowed."""
    for index, volume in enumerate(_list(pod.get("volumes"))):
        for name, value in volume.items():
            if name != "name" and name not in VOLUME_TYPES and value is not None:
                yield "HostPath" if name == "hostPath" else "Volumes", f"{POD_PATH}.volumes[{index}].{name}"


def _container(container: Mapping[str, Any], path: str) -> Iterator[Found]:
    yield from _others(container, CONTAINER_FIELDS, path)
    yield from _security(_map(container.get("securityContext")), f"{path}.securityContext")
    for index, port in enumerate(_list(container.get("ports"))):
        if port.get("hostPort"):
            yield "HostPorts", f"{path}.ports[{index}].hostPort"
    lifecycle = _map(container.get("lifecycle"))
    calls = {f"lifecycle.{name}": lifecycle.get(name) for name in ("postStart", "preStop")}
    calls |= {name: container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")}
    for name, call in calls.items():
        for kind in ("httpGet", "tcpSocket"):
            if _map(_map(call).get(kind)).get("host"):
                yield "ProbeHost", f"{path}.{name}.{kind}.host"


def _security(context: Mapping[str, Any], path: str) -> Iterator[Found]:
    """The rejected fields of a security context of a pod or a container."""
    yield from _others(context, SECURITY_FIELDS, path)
    for word, field, is_refused in _SECURITY:
        inner: object = context
        for name in field.split("."):
            inner = _map(inner).get(name)
        if is_refused(inner):
            yield word, f"{path}.{field.removesuffix('.type')}"


def _others(body: Mapping[str, Any], allowed: Collection[str], path: str) -> Iterator[Found]:
    """The fields that are not in the list."""
    for name, value in body.items():
        if name not in allowed and value is not None:
            yield "OtherFields", f"{path}.{name}"


def _annotations(template: TemplateSpec) -> Iterator[Found]:
    for key, value in template.metadata.annotations.items():
        if key.startswith(_APPARMOR) and value == "unconfined":
            yield "Unconfined", f"spec.worker.template.metadata.annotations.{key}"


def _map(value: object) -> Mapping[str, Any]:
    """``value`` if it is a map; else an empty one, since the API server rejects the field anyway."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [_map(entry) for entry in cast("list[object]", value)] if isinstance(value, list | tuple) else []
