"""Checks ``spec.worker.template.spec``: the types of its fields, and what claimq adds or sets elsewhere.

The operator merges these fields with its own fields, so their types are checked first. The API server checks
everything else when it gets the Deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import cast

from claimq.errors import Problem
from claimq_control.manifest.reading import shown
from claimq_process.names import APP_CONTAINER, SECRETS_VOLUME, SIDECAR_CONTAINER, SOCKET_VOLUME

RESERVED_CONTAINERS = (SIDECAR_CONTAINER,)
RESERVED_VOLUMES = (SOCKET_VOLUME, SECRETS_VOLUME)

POD_PATH = "spec.worker.template.spec"
"""The field that this module checks."""


class Shape(Enum):
    """The type of a field of a pod; the value is what a message asks for."""

    OBJECT = "an object"
    OBJECTS = "a list of objects"
    TEXT = "a text"
    TEXTS = "a list of texts"
    BOOLEAN = "true or false, without quotes"
    INTEGER = "a whole number, without quotes"


def _fields(**names: str) -> dict[str, Shape]:
    return {name: Shape[shape] for shape, text in names.items() for name in text.split()}


POD = _fields(
    OBJECT="affinity dnsConfig nodeSelector os overhead securityContext",
    OBJECTS="hostAliases imagePullSecrets readinessGates resourceClaims schedulingGates tolerations "
    "topologySpreadConstraints",
    TEXT="dnsPolicy hostname nodeName preemptionPolicy priorityClassName runtimeClassName schedulerName "
    "serviceAccount serviceAccountName subdomain",
    BOOLEAN="automountServiceAccountToken enableServiceLinks hostIPC hostNetwork hostPID hostUsers setHostnameAsFQDN "
    "shareProcessNamespace",
    INTEGER="activeDeadlineSeconds priority",
)
"""Fields of a pod, as in Kubernetes 1.34, without those that have rules of their own."""
CONTAINER = _fields(
    OBJECT="lifecycle livenessProbe readinessProbe resources securityContext startupProbe",
    OBJECTS="env envFrom ports resizePolicy volumeDevices volumeMounts",
    TEXT="image imagePullPolicy restartPolicy terminationMessagePath terminationMessagePolicy workingDir",
    TEXTS="args command",
    BOOLEAN="stdin stdinOnce tty",
)
"""Fields of a container, as in Kubernetes 1.34, without its name."""

POD_KEYS = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""Lists of a pod and the fields that identify an entry. The API server accepts no apply with two equal entries."""
CONTAINER_KEYS = {
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
}
"""The same for the lists of a container."""
KEY_DEFAULTS: dict[str, str] = {"protocol": "TCP"}


def pod_problems(pod: Mapping[str, object]) -> Iterator[Problem]:
    """The problems of the pod spec of a template. Nulls count as missing."""
    yield from _types(POD_PATH, POD, pod)
    yield from _duplicates(POD_PATH, POD_KEYS, pod)
    if pod.get("restartPolicy", "Always") != "Always":
        yield Problem(
            f"{POD_PATH}.restartPolicy", f"is {shown(pod['restartPolicy'])}; workers are restarted: remove it"
        )
    yield from _each(pod, "containers", "container", _main_container)
    yield from _each(pod, "initContainers", "container", _container)
    yield from _each(pod, "volumes", "volume", _volume)


def listeners(pod: Mapping[str, object], port: int) -> Iterator[tuple[str, object]]:
    """The containers that declare this TCP port and run beside the app: the field of their list, and their name."""
    for field in ("containers", "initContainers"):
        for container in _objects(pod, field):
            if field == "initContainers" and container.get("restartPolicy") != "Always":
                continue  # it has ended when the sidecar starts
            for listener in _objects(container, "ports"):
                if (listener.get("containerPort"), listener.get("protocol") or "TCP") == (port, "TCP"):
                    yield f"{POD_PATH}.{field}", container.get("name")


def _objects(body: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """The objects of a list. Entries of other types are reported elsewhere."""
    entries = body.get(name)
    items = cast("list[object]", entries) if isinstance(entries, list | tuple) else []
    return [cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping)]


Check = Callable[[str, Mapping[str, object]], Iterator[Problem]]


def _each(pod: Mapping[str, object], name: str, noun: str, check: Check) -> Iterator[Problem]:
    """The problems of a list and of each of its entries; ``check`` gets the path and the entry."""
    path, entries = f"{POD_PATH}.{name}", pod.get(name, ())
    if not isinstance(entries, list | tuple):
        yield Problem(path, f"is {shown(entries)}; give a list of {noun}s")
        return
    for index, entry in enumerate(cast("list[object]", entries)):
        if isinstance(entry, Mapping):
            yield from check(f"{path}[{index}]", cast("Mapping[str, object]", entry))
        else:
            yield Problem(f"{path}[{index}]", f"is {shown(entry)}; give a {noun}")


def _types(path: str, shapes: Mapping[str, Shape], body: Mapping[str, object]) -> Iterator[Problem]:
    for name, shape in shapes.items():
        value = body.get(name)
        if value is not None and not _FITS[shape](value):
            yield Problem(f"{path}.{name}", f"is {shown(value)}; give {shape.value}")


def _duplicates(
    path: str, keys: Mapping[str, tuple[str, ...]], body: Mapping[str, object]
) -> Iterator[Problem]:
    """The entries of lists that have the same key as an earlier one. An incomplete key is reported elsewhere."""
    for name, fields in keys.items():
        entries = body.get(name)
        first: dict[str, int] = {}
        for index, entry in enumerate(
            cast("list[object]", entries) if isinstance(entries, list | tuple) else ()
        ):
            item: Mapping[str, object] = (
                cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
            )
            values: list[object] = [item.get(field) or KEY_DEFAULTS.get(field) for field in fields]
            if None not in values and (same := first.setdefault(repr(values), index)) != index:
                key = " and ".join(
                    f"{field} {shown(value)}" for field, value in zip(fields, values, strict=True)
                )
                yield Problem(f"{path}.{name}[{index}]", f"has {key} like {name}[{same}]; remove one")


def _volume(path: str, volume: Mapping[str, object]) -> Iterator[Problem]:
    name = volume.get("name")
    if not isinstance(name, str):
        yield Problem(f"{path}.name", "is missing; give the volume a name")
    elif name in RESERVED_VOLUMES:
        yield Problem(f"{path}.name", f"is {shown(name)}, a volume that claimq adds; choose another name")


def _container(path: str, container: Mapping[str, object]) -> Iterator[Problem]:
    yield from _types(path, CONTAINER, container)
    yield from _duplicates(path, CONTAINER_KEYS, container)
    name = container.get("name")
    if not isinstance(name, str):
        yield Problem(f"{path}.name", 'is missing; give the container a name ("worker" is the app)')
    elif name in RESERVED_CONTAINERS:
        yield Problem(
            f"{path}.name", f"is {shown(name)}, the container that claimq adds; choose another name"
        )


def _main_container(path: str, container: Mapping[str, object]) -> Iterator[Problem]:
    yield from _container(path, container)
    if container.get("name") != APP_CONTAINER:
        return
    if container.get("restartPolicy", "Always") != "Always":
        fault = f"is {shown(container['restartPolicy'])}; workers are restarted: remove it"
        yield Problem(f"{path}.restartPolicy", fault)
    for name in ("image", "command", "args", "env", "envFrom", "resources"):
        if name in container:
            yield Problem(f"{path}.{name}", f"is set for the app container; set spec.worker.{name} instead")


def _is_list_of(kind: type[object]) -> Callable[[object], bool]:
    def fits(value: object) -> bool:
        return isinstance(value, list | tuple) and all(
            isinstance(entry, kind) for entry in cast("list[object]", value)
        )

    return fits


_FITS: dict[Shape, Callable[[object], bool]] = {
    Shape.OBJECT: lambda value: isinstance(value, Mapping),
    Shape.OBJECTS: _is_list_of(Mapping),
    Shape.TEXT: lambda value: isinstance(value, str),
    Shape.TEXTS: _is_list_of(str),
    Shape.BOOLEAN: lambda value: isinstance(value, bool),
    Shape.INTEGER: lambda value: isinstance(value, int) and not isinstance(value, bool),
}
