"""``spec.worker`` and ``spec.sidecar``: the containers of a worker."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from claimq_control.manifest.declaring import (
    boolean,
    choice,
    duration,
    free,
    free_list,
    integer,
    nested,
    objects,
    quantity_map,
    text,
    text_map,
    texts,
)
from claimq_control.manifest.push_spec import Delivery, PushSpec
from claimq_process.names import HEALTH_PORT

_IN_POD = "it belongs in spec.worker.template.spec"
_IN_CONTAINER = 'it belongs to the container named "worker" in spec.worker.template.spec.containers'


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec:
    """CPU and memory of a container."""

    requests: Mapping[str, str] = quantity_map(
        "Resources reserved for the container, as Kubernetes quantities: cpu in cores, memory in bytes.",
        absent="nothing",
    )
    limits: Mapping[str, str] = quantity_map(
        "Maximum resources of the container, as Kubernetes quantities: cpu in cores, memory in bytes.",
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarResourcesSpec:
    """CPU and memory of the sidecar."""

    requests: Mapping[str, str] = quantity_map(
        "Resources reserved for the sidecar, as Kubernetes quantities: cpu in cores, memory in bytes.",
        default={"cpu": "10m", "memory": "64Mi"},
    )
    limits: Mapping[str, str] = quantity_map(
        "Maximum resources of the sidecar, as Kubernetes quantities: cpu in cores, memory in bytes.",
        default={"memory": "256Mi"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvVar:
    """One environment variable."""

    name: str = text(
        "Name of the variable.",
        required=True,
        pattern="^[A-Za-z_][A-Za-z0-9_.-]*$",
        form="the name of an environment variable (letters, digits, '_', '.' and '-', no digit first)",
        longest=253,
    )
    value: str | None = text("Value of the variable.", absent="valueFrom, or the empty text")
    value_from: Mapping[str, object] = free(
        "Source of the value, as in a Kubernetes container (secretKeyRef, configMapKeyRef, fieldRef, "
        "resourceFieldRef). In local mode the variable is taken from the environment of `claimq up`.",
        absent="value",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateMetadata:
    """Labels and annotations of the worker pods."""

    labels: Mapping[str, str] = text_map("Labels for the worker pods, in addition to those of claimq.")
    annotations: Mapping[str, str] = text_map("Annotations for the worker pods.")


class Mesh(StrEnum):
    """A service mesh whose proxy runs in the worker pods."""

    NONE = "None"
    ISTIO = "Istio"
    LINKERD = "Linkerd"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentSpec:
    """Labels and annotations of the worker Deployment, for policies that require them."""

    HINTS: ClassVar[dict[str, str]] = {
        "replicas": "the number of workers is in spec.scaling",
        "metadata": "write labels and annotations directly here",
        "spec": "fields of the pods belong in spec.worker.template",
    }

    labels: Mapping[str, str] = text_map("Labels for the worker Deployment, in addition to those of claimq.")
    annotations: Mapping[str, str] = text_map("Annotations for the worker Deployment.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpec:
    """Other fields of the worker pods."""

    metadata: TemplateMetadata = nested(
        "Labels and annotations of the worker pods.", TemplateMetadata, absent="none"
    )
    spec: Mapping[str, object] = free(
        "Pod spec, for fields that spec.worker does not have: volumes, nodeSelector, tolerations, affinity and others. "
        "Fields with access beyond the pod (hostNetwork, hostPath, another service account, root and others) must be "
        'allowed by a setting of the operator. The container named "worker" is merged into the app container.',
        absent="empty",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """The app that processes the items."""

    HINTS: ClassVar[dict[str, str]] = {
        "replicas": "the number of workers is in spec.scaling: minReplicas and maxReplicas, or mode: Manual and "
        "replicas",
        "terminationGracePeriodSeconds": "it follows from drainTimeout; set drainTimeout",
        "sidecar": "it belongs in spec.sidecar",
        "grace": "set drainTimeout",
        **dict.fromkeys(
            ("volumes", "nodeSelector", "tolerations", "affinity", "serviceAccountName", "imagePullSecrets",
             "topologySpreadConstraints", "priorityClassName", "initContainers", "containers"), _IN_POD),
        **dict.fromkeys(
            ("volumeMounts", "ports", "securityContext", "lifecycle", "livenessProbe", "readinessProbe",
             "startupProbe", "imagePullPolicy", "workingDir"), _IN_CONTAINER),
    }  # fmt: skip

    image: str = text(
        "Image of the app. Local mode runs `command` instead and does not need it.",
        required=True,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$",
        form="the name of an image, such as registry.example/app:1.4",
        longest=512,
    )
    command: tuple[str, ...] = texts(
        "Program and first arguments, one string each. Local mode runs it in the directory of the manifest.",
        absent="the image's entry point",
    )
    args: tuple[str, ...] = texts(
        "Arguments after the command, one string each.", absent="the image's arguments"
    )
    env: tuple[EnvVar, ...] = objects(
        "Environment variables of the app.", EnvVar, absent="only those that claimq sets"
    )
    env_from: tuple[Mapping[str, object], ...] = free_list(
        "ConfigMaps and Secrets whose keys become environment variables, as in a Kubernetes container. Local mode "
        "ignores them: the app gets the environment of `claimq up`.",
        absent="none",
    )
    resources: ResourcesSpec = nested(
        "CPU and memory of the app.", ResourcesSpec, absent="the namespace's defaults"
    )
    concurrency: int = integer(
        "Maximum number of items that one worker processes at the same time. A claim for more items gets this many. "
        "Raise it for an app that processes batches or has several threads.",
        default=1,
        least=1,
        most=1000,
    )
    claim_ahead: int = integer(
        "Maximum number of items that one worker has received and has not begun, beside those that it processes. "
        "`worker.items()` of the Python client receives items ahead while the app is quick. Those that it does not "
        "begin within 250 ms go back, uncounted.",
        default=100,
        least=0,
        most=500,
    )
    drain_timeout: float = duration(
        "How long a stopping worker may take to finish its items, as a duration. Unfinished items then return to the "
        "head of the queue, uncounted. The grace period of the pod is derived from it.",
        default=25.0,
        least="0s",
        most="24h",
    )
    max_unavailable: int | None = integer(
        "How many workers a rollout of a new template may remove before new ones are ready. With 1 to 3 workers the "
        "default is none; set 1 if old and new workers do not fit beside each other: a full quota, a volume that only "
        "one node can mount, a port of the node.",
        least=1,
        most=1000,
        absent="a quarter of the workers, rounded down",
    )
    delivery: Delivery = choice(
        "How the app gets its items. `pull`: it claims them from the sidecar's socket. `push`: the sidecar sends them "
        "to the app in HTTP requests, at most `concurrency` items at the same time.",
        Delivery.PULL,
    )
    push: PushSpec | None = nested(
        "Requests of the sidecar to the app, with delivery `push`.",
        PushSpec,
        optional=True,
        absent="see the fields below",
    )
    disruption_budget: bool = boolean(
        "Whether the operator creates a PodDisruptionBudget, with which the drain of nodes interrupts a quarter of the "
        "workers at a time. It has none while another budget selects the worker pods: two would block every drain.",
        default=True,
    )
    mesh: Mesh = choice(
        "The service mesh whose proxy runs in the worker pods: they get annotations, so that probes, hooks and metrics "
        "reach the sidecar's port without mTLS (docs/meshes.md).",
        Mesh.NONE,
    )
    deployment: DeploymentSpec = nested(
        "The worker Deployment.", DeploymentSpec, absent="see the fields below"
    )
    template: TemplateSpec = nested("Other fields of the worker pods.", TemplateSpec, absent="empty")

    @property
    def pushes(self) -> PushSpec | None:
        """The settings of the requests with items; None if the app claims its items itself."""
        return (self.push or PushSpec()) if self.delivery is Delivery.PUSH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSpec:
    """The container that claimq adds to the worker pods."""

    resources: SidecarResourcesSpec = nested(
        "CPU and memory of the sidecar.", SidecarResourcesSpec, absent="see the fields below"
    )
    image: str | None = text(
        "Image of the sidecar.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$",
        form="the name of an image, such as registry.example/claimq-sidecar:1.0",
        longest=512,
        absent="the sidecar image of the operator's release",
    )
    port: int = integer(
        "Port of the worker pod for the sidecar's probes, hooks and metrics. Change it if another container of the pod "
        "listens on it.",
        default=HEALTH_PORT,
        least=1024,
        most=65535,
    )
