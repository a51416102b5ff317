"""docs/tutorial-cluster.md: each command as it stands there, and what it prints.

The commands that build and push images are left out: there is no registry, and the tests build the same images without
Docker.
It installs a release of its own; the release of the other tests is removed for that time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.commands import WAIT, eventually
from clusterkit.own_cluster import OwnCluster
from testkit.on_cluster.cluster_images import ClusterImages
from testkit.on_cluster.release import CRD, Release, provide_volume
from testkit.programs.console import PageRunner, shell_in
from testkit.repository.tree import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

VOLUME = "claimq-readme-valkey"


@pytest.fixture
def pulled(kubernetes: Cluster, images: ClusterImages) -> Iterator[None]:
    """The nodes have the images under the names that the page gives them, as if they had pulled them."""
    assert isinstance(kubernetes, OwnCluster)
    names = {
        images.operator: "registry.example/team/claimq-operator:0.1.0",
        images.sidecar: "registry.example/team/claimq-sidecar:0.1.0",
        images.checksums: "registry.example/team/claimq-example-checksums:0.1.0",
        images.valkey: "docker.io/valkey/valkey:9.1",
    }
    for node in kubernetes.nodes:
        known = kubernetes.run_on_node(node, "ctr", "-n", "k8s.io", "images", "ls", "-q").split()
        for image, name in names.items():
            (full,) = [one for one in known if one == image or one.endswith(f"/{image}")]
            kubernetes.run_on_node(node, "ctr", "-n", "k8s.io", "images", "tag", "--force", full, name)
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "claimq"}})
    provide_volume(kubernetes, "claimq", "data-claimq-valkey-0", VOLUME)
    yield
    kubernetes.kubectl("delete", "pv", VOLUME, "--ignore-not-found", "--wait=false")


@pytest.fixture
def nothing_installed(kubernetes: Cluster, release: Release) -> Iterator[None]:
    """A cluster without a release; whatever a command that failed has left is taken away at the end."""
    try:
        release.uninstall()
        yield
        helm = ("uninstall", "claimq", "--namespace=claimq", "--wait", "--ignore-not-found")
        kubernetes.run("helm", *helm, check=False)
        for words in (
            ["secret", "redis"],
            ["namespace", "claimq", WAIT],
            ["crd", CRD, WAIT],
        ):
            kubernetes.run("kubectl", "delete", "--ignore-not-found", *words, check=False)
    finally:
        release.install_as_usual()


def test_every_command_of_the_tutorial_prints_what_it_shows(
    kubernetes: Cluster, pulled: None, nothing_installed: None, tmp_path: Path
) -> None:
    del pulled, nothing_installed
    page = (ROOT / "docs" / "tutorial-cluster.md").read_text()
    shell = shell_in(ROOT, *map(str, kubernetes.entering()), env=kubernetes.environment())
    pages = PageRunner(ROOT, shell, tmp_path / "first-terminal.log")
    pages.run(page, skip="docker |for ")
    # The definition goes last, and what belonged to queues before it: no operator would collect it afterwards.
    words = ("get", "deployments,pdb", "--all-namespaces", "--selector=claimq.dev/queue", "-o", "name")
    eventually("the workers' objects are collected", lambda: kubernetes.kubectl(*words) == "")
