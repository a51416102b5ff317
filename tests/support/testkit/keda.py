"""KEDA on a cluster: its operator and its metrics API, built from its Go modules, with its own manifests."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml

from clusterkit import Cluster
from clusterkit.archives import program_image
from clusterkit.build import keda
from clusterkit.commands import eventually
from clusterkit.images import BuiltImage
from clusterkit.layout import cache_folder
from clusterkit.toolchain import exclusively
from testkit.queue_on_cluster import QueueOnCluster
from testkit.release import is_rolled_out, listed

Json = dict[str, Any]
NAMESPACE = "keda"
PAUSED = "autoscaling.keda.sh/paused-replicas"
_PROGRAMS = {"keda-operator": "operator", "keda-metrics-apiserver": "adapter"}
"""Deployment to the program that its container is."""
_OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects"


@dataclass(frozen=True)
class Settings:
    """Of a ScaledObject, in seconds; the defaults are KEDA's and the HPA's. ``length``: items for one worker."""

    length: int = 5
    polling: int = 30
    cooldown: int = 300
    window: int = 300
    most: int = 100


@contextmanager
def installed(cluster: Cluster) -> Generator[None]:
    """KEDA without its webhooks, once it serves metrics. It is taken away at the end, as are its definitions."""
    folder = keda()
    objects = list(_objects(cluster, folder))
    try:
        _apply(cluster, objects)
        for name in _PROGRAMS:
            path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
            eventually(f"{name} runs", partial(is_rolled_out, cluster, path), timeout=300)
        eventually("KEDA serves metrics", lambda: _serves_metrics(cluster), timeout=240)
        yield
    finally:
        words = ("delete", "--ignore-not-found", "--timeout=110s", "-f", "-")
        cluster.kubectl(*words, stdin=_text(_for_deletion(objects)), timeout=240)


def scale(queue: QueueOnCluster, settings: Settings) -> None:
    """Lets KEDA scale the queue by the length of its main list, through its scale subresource (mode External)."""
    address = queue.server.inside.removeprefix("redis://").partition("/")[0]
    trigger: Json = {
        "address": address,
        "listName": f"cq:{{{queue.on_server}}}:main",
        "listLength": str(settings.length),
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": settings.window}}
    spec: Json = {
        "scaleTargetRef": {"apiVersion": "claimq.dev/v1alpha1", "kind": "ReliableQueue", "name": queue.name},
        "pollingInterval": settings.polling,
        "cooldownPeriod": settings.cooldown,
        "minReplicaCount": 0,
        "maxReplicaCount": settings.most,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
        "triggers": [{"type": "redis", "metadata": trigger}],
    }
    head = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": queue.name}}
    queue.cluster.apply({**head, "spec": spec}, namespace=queue.namespace)


def annotate(queue: QueueOnCluster, annotations: Mapping[str, str | None]) -> None:
    """Annotations of the queue's ScaledObject; None removes one."""
    path = f"{_OBJECTS.format(queue.namespace)}/{queue.name}"
    queue.cluster.api("PATCH", path, {"metadata": {"annotations": annotations}})


def leave_alone(queue: QueueOnCluster) -> None:
    """Deletes the queue's ScaledObject, and waits until it is gone: KEDA has a finalizer on it."""
    path = _OBJECTS.format(queue.namespace)
    queue.cluster.api("DELETE", f"{path}/{queue.name}")
    eventually("the ScaledObject is gone", lambda: not listed(queue.cluster, path), timeout=120)


def _objects(cluster: Cluster, folder: Path) -> Generator[Json]:
    """KEDA's manifests with the images that were built here, which are loaded into every node."""
    images = {name: cluster.load_image(_image(folder / program)) for name, program in _PROGRAMS.items()}
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


def _image(program: Path) -> BuiltImage:
    """An image of the program alone; written once for a build."""
    tag = f"docker.io/library/claimq-test-keda-{program.name}:1"
    archive = cache_folder() / "images" / f"{program.parent.name}-{program.name}.tar"
    with exclusively(archive):
        if not archive.exists():
            program_image(program, tag, archive.with_suffix(".new")).rename(archive)
    return BuiltImage(tag, archive)


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
