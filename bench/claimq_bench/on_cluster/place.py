"""Where it is measured: a release of the chart, and a namespace of queues."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from clusterkit import Cluster
from clusterkit.commands import eventually
from testkit.on_cluster.cluster_images import load_images
from testkit.on_cluster.release import Release, create_namespace, provide_volume, refuse_if_installed

SYSTEM = "claimq-bench"
QUEUES = "claimq-bench-queues"
QUEUES_PATH = f"/apis/claimq.dev/v1alpha1/namespaces/{QUEUES}/reliablequeues"
_VOLUME = "claimq-bench-valkey"


@contextmanager
def release(on: Cluster, *, stays: bool) -> Generator[Release]:
    """The chart with its Valkey, and the namespace QUEUES. From a cluster that stays all of it is taken away again."""
    refuse_if_installed(on)
    images = load_images(on, os.environ.get("CLAIMQ_IMAGE_TAG") or "bench")
    made = Release(on, images, "claimq", SYSTEM)
    at_the_end = ExitStack()
    try:
        # Last: it is kept as long as a pod claims it.
        at_the_end.callback(_delete, on, "pv", _VOLUME)
        for name in (SYSTEM, QUEUES):
            at_the_end.callback(_delete, on, "namespace", name)
            create_namespace(on, name)
        provide_volume(on, SYSTEM, f"data-{made.valkey}-0", _VOLUME)
        at_the_end.callback(made.uninstall)
        made.install("--set=valkey.enabled=true")
        at_the_end.callback(delete_queues, on)
        yield made
    finally:
        if stays:
            at_the_end.close()


def delete_queues(on: Cluster) -> None:
    """Deletes all queues of QUEUES, and waits until they and what the operator made for them are gone."""
    on.api("DELETE", QUEUES_PATH, timeout=60)
    left = ("get", "reliablequeues,deployments,pods", f"--namespace={QUEUES}", "-o", "name")
    eventually("the queues are gone", lambda: not on.kubectl(*left), timeout=240, every=2)


def _delete(on: Cluster, kind: str, name: str) -> None:
    on.kubectl("delete", kind, name, "--ignore-not-found", "--timeout=120s", timeout=130)
