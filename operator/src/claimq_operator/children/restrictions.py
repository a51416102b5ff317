"""Fields of a pod template that are rejected unless a setting of the operator allows them. Pure.

The operator creates the pods, so permission to create a queue must not grant permission to create any pod.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, cast

from claimq_spec.manifest import TemplateSpec
from claimq_spec.manifest.pod_template import POD_PATH

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


def refused(template: TemplateSpec, allowed: Collection[str]) -> str:
    """One sentence with every field that is not allowed and the fix; empty if all are allowed."""
    found = [one for one in (*_pod(template.spec), *_annotations(template)) if one[0] not in allowed]
    if not found:
        return ""
    fields = ", ".join(f"{field} ({word})" for word, field in dict.fromkeys(found))
    words = ", ".join(dict.fromkeys(word for word, _ in found))
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
    yield from _security(_map(pod.get("securityContext")), f"{POD_PATH}.securityContext")
    for index, volume in enumerate(_list(pod.get("volumes"))):
        if volume.get("hostPath") is not None:
            yield "HostPath", f"{POD_PATH}.volumes[{index}].hostPath"
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for index, container in enumerate(_list(pod.get(kind))):
            yield from _container(container, f"{POD_PATH}.{kind}[{index}]")


def _container(container: Mapping[str, Any], path: str) -> Iterator[Found]:
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
    for word, field, is_refused in _SECURITY:
        value: object = context
        for name in field.split("."):
            value = _map(value).get(name)
        if is_refused(value):
            yield word, f"{path}.{field.removesuffix('.type')}"


def _annotations(template: TemplateSpec) -> Iterator[Found]:
    for key, value in template.metadata.annotations.items():
        if key.startswith(_APPARMOR) and value == "unconfined":
            yield "Unconfined", f"spec.worker.template.metadata.annotations.{key}"


def _map(value: object) -> Mapping[str, Any]:
    """``value`` if it is a map; else an empty one, since the API server rejects the field anyway."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Mapping[str, Any]]:
    return [_map(one) for one in cast("list[object]", value)] if isinstance(value, list | tuple) else []
