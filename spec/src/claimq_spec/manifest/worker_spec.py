"""``spec.worker`` and ``spec.sidecar``: the containers of a worker."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from claimq_spec.manifest.declaring import (
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

_IN_POD = "it belongs in spec.worker.template.spec"
_IN_CONTAINER = 'it belongs to the container named "worker" in spec.worker.template.spec.containers'


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourcesSpec:
    """CPU and memory of a container."""

    requests: Mapping[str, str] = quantity_map(
        "What the container is sure to get, as Kubernetes quantities: cpu in cores, memory in bytes.",
        absent="nothing",
    )
    limits: Mapping[str, str] = quantity_map(
        "What the container may use at most, as Kubernetes quantities: cpu in cores, memory in bytes.",
        absent="no limit",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarResourcesSpec:
    """CPU and memory of the sidecar."""

    requests: Mapping[str, str] = quantity_map(
        "What the sidecar is sure to get, as Kubernetes quantities: cpu in cores, memory in bytes.",
        default={"cpu": "10m", "memory": "64Mi"},
    )
    limits: Mapping[str, str] = quantity_map(
        "What the sidecar may use at most, as Kubernetes quantities: cpu in cores, memory in bytes.",
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
    value: str | None = text("Its value, a text.", absent="the empty text, or what valueFrom says")
    value_from: Mapping[str, object] = free(
        "Where its value comes from, as in a Kubernetes container (secretKeyRef, configMapKeyRef, fieldRef, "
        "resourceFieldRef). In local mode the variable is taken from the environment of `claimq up`.",
        absent="value says",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateMetadata:
    """Labels and annotations of the worker pods."""

    labels: Mapping[str, str] = text_map("Labels for the worker pods, beside those of claimq.", absent="none")
    annotations: Mapping[str, str] = text_map("Annotations for the worker pods.", absent="none")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSpec:
    """All else of a worker pod."""

    metadata: TemplateMetadata = nested(
        "Labels and annotations of the worker pods.", TemplateMetadata, absent="none"
    )
    spec: Mapping[str, object] = free(
        "The pod's spec, for all that has no field of its own here: volumes, nodeSelector, tolerations, affinity "
        "and the like. What reaches beyond the pod (hostNetwork, hostPath, another service account, root and so on) "
        'needs a setting of the operator. What it says about the container named "worker" is joined to the app '
        "container.",
        absent="nothing more",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """The app that works on the items."""

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
        "Program and first arguments, one text each. Local mode runs it in the directory of the manifest.",
        absent="the image's entry point",
    )
    args: tuple[str, ...] = texts(
        "Arguments after the command, one text each.", absent="the image's arguments"
    )
    env: tuple[EnvVar, ...] = objects(
        "Environment variables of the app.", EnvVar, absent="only those that claimq sets"
    )
    env_from: tuple[Mapping[str, object], ...] = free_list(
        "ConfigMaps and Secrets whose keys become environment variables, as in a Kubernetes container. Local mode "
        "leaves them out: the app gets the environment of `claimq up`.",
        absent="none",
    )
    resources: ResourcesSpec = nested(
        "CPU and memory of the app.", ResourcesSpec, absent="the namespace's defaults"
    )
    concurrency: int = integer(
        "Items that one worker works on at the same time: what the sidecar hands out and does not yet know settled. A "
        "claim for more gets so many. Raise it for an app that takes batches or has several threads.",
        default=1,
        least=1,
        most=1000,
    )
    drain_timeout: float = duration(
        "How long a worker that is stopped may finish the items it has in progress, as a duration. What is left then "
        "goes back to the head of the queue, uncounted. The pod's grace period follows from it.",
        default=25.0,
        least="0s",
        most="24h",
    )
    template: TemplateSpec = nested("All else of a worker pod.", TemplateSpec, absent="nothing more")


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarSpec:
    """The container that claimq puts beside the app."""

    resources: SidecarResourcesSpec = nested(
        "CPU and memory of the sidecar.", SidecarResourcesSpec, absent="see the fields below"
    )
    image: str | None = text(
        "Image of the sidecar.",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$",
        form="the name of an image, such as registry.example/claimq-sidecar:1.0",
        longest=512,
        absent="the one of the operator's release",
    )
