"""KEDA on a cluster: its operator and its metrics API, built from its Go modules, with its own manifests."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import yaml

from claimq_bench.simulation.scalers import KedaSettings
from claimq_kubernetes.port import Json
from clusterkit import Cluster
from clusterkit.build import keda
from clusterkit.commands import WAIT, eventually
from clusterkit.images import image_of
from testkit.on_cluster.queue_on_cluster import QueueOnCluster
from testkit.on_cluster.release import is_rolled_out

NAMESPACE = "keda"
PAUSED = "autoscaling.keda.sh/paused-replicas"
_PROGRAMS = {"keda-operator": "operator", "keda-metrics-apiserver": "adapter"}
"""Deployment to the program that its container is."""


@contextmanager
def installed(cluster: Cluster) -> Generator[None]:
    """KEDA without its webhooks, once it serves metrics. It is taken away at the end, as are its definitions."""
    folder = keda()
    objects = list(_objects(cluster, folder))
    try:
        _apply(cluster, objects)
        for name in _PROGRAMS:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
            eventually(f"{name} runs", partial(is_rolled_out, cluster, path))
        eventually("KEDA serves metrics", lambda: _serves_metrics(cluster))
        yield
    finally:
        words = ("delete", "--ignore-not-found", WAIT, "-f", "-")
        cluster.kubectl(*words, stdin=_text(_for_deletion(objects)))


@contextmanager
def scaling(queue: QueueOnCluster, settings: KedaSettings) -> Generator[None]:
    """KEDA scales the queue by the length of its main list, through its scale subresource (mode External).

    The ScaledObject is gone at the end: KEDA has a finalizer on it, and could not be removed before.
    """
    address = queue.server.inside.removeprefix("redis://").partition("/")[0]
    trigger: Json = {
        "address": address,
        "listName": f"cq:{{{queue.on_server}}}:main",
        "listLength": f"{settings.target:g}",
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": round(settings.window)}}
    spec: Json = {
        "scaleTargetRef": {"apiVersion": "claimq.dev/v1alpha1", "kind": "ReliableQueue", "name": queue.name},
        "pollingInterval": round(settings.polling),
        "cooldownPeriod": round(settings.cooldown),
        "minReplicaCount": settings.min_replicas,
        "maxReplicaCount": settings.max_replicas,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
        "triggers": [{"type": "redis", "metadata": trigger}],
    }
    head = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": queue.name}}
    try:
        queue.cluster.apply({**head, "spec": spec}, namespace=queue.namespace)
        yield
    finally:
        queue.cluster.kubectl(
            "delete",
            "scaledobject",
            queue.name,
            f"--namespace={queue.namespace}",
            "--ignore-not-found",
            WAIT,
        )


def annotate(queue: QueueOnCluster, annotations: Mapping[str, str | None]) -> None:
    """Annotations of the queue's ScaledObject; None removes one."""
    path = f"/apis/keda.sh/v1alpha1/namespaces/{queue.namespace}/scaledobjects/{queue.name}"
    queue.cluster.api("PATCH", path, {"metadata": {"annotations": annotations}})


def _objects(cluster: Cluster, folder: Path) -> Generator[Json]:
    """KEDA's manifests with the images that were built here, which are loaded into every node."""
    images = {
        name: cluster.load_image(image_of(folder / program, f"docker.io/library/claimq-test-{name}:1"))
        for name, program in _PROGRAMS.items()
    }
    text = cluster.kubectl("kustomize", str(folder / "config" / "default"))
    for one in cast("list[Json]", list(yaml.safe_load_all(text))):
        name = str(one["metadata"]["name"])
        if "webhooks" in name or "admission" in name:
            continue
        if one["kind"] == "Deployment":
            container: Json = one["spec"]["template"]["spec"]["containers"][0]
            container |= {"image": images[name], "imagePullPolicy": "IfNotPresent"}
            container["command"] = [f"/{_PROGRAMS[name]}"]
        yield one


def _for_deletion(objects: list[Json]) -> list[Json]:
    """Namespace and definitions last, so that what needs them can still end."""
    return sorted(objects, key=lambda one: one["kind"] in ("Namespace", "CustomResourceDefinition"))


def _apply(cluster: Cluster, objects: list[Json]) -> None:
    """Server-side: a definition is too large for the annotation of `kubectl apply`."""
    words = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    cluster.kubectl(*words, stdin=_text(objects))


def _text(objects: list[Json]) -> str:
    return "\n---\n".join(json.dumps(one) for one in objects)


def _serves_metrics(cluster: Cluster) -> bool:
    path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.external.metrics.k8s.io"
    conditions = cast("Json", cluster.api("GET", path)).get("status", {}).get("conditions", [])
    return any(one["type"] == "Available" and one["status"] == "True" for one in conditions)
