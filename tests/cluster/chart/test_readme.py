"""README.md, "On a cluster": each command as it stands there, but for the making of images, in one shell.

It installs a release of its own; the release of the other tests is removed for that time.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.commands import eventually
from clusterkit.own_cluster import OwnCluster
from testkit.cluster_images import ClusterImages
from testkit.release import CRD, Release, provide_volume
from testkit.tree import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]

VOLUME = "claimq-readme-valkey"
IS_FAILED = "until claimq -n default failed list checksums | grep -q /etc/shadow; do sleep 0.5; done"
# What a person does between two commands: looks again.
WAITS = {"claimq -n default enqueue": IS_FAILED, "claimq -n default failed requeue": IS_FAILED}


def commands() -> list[str]:
    """The lines of the section's shell blocks, without those that make images."""
    section = (ROOT / "README.md").read_text().partition("\n## On a cluster\n")[2].partition("\n## ")[0]
    text = "".join(re.findall(r"```sh\n(.*?)```", section, re.DOTALL)).replace("\\\n", " ")
    return [line for line in text.splitlines() if line and not re.match(r"(docker|for) ", line)]


@pytest.fixture
def pulled(kubernetes: Cluster, images: ClusterImages) -> Iterator[None]:
    """The nodes have the images under the names that the README gives them, as if they had pulled them."""
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
        kubernetes.run("helm", *helm, check=False, timeout=200)
        for words in (
            ["secret", "redis"],
            ["namespace", "claimq", "--timeout=120s"],
            ["crd", CRD, "--timeout=60s"],
        ):
            kubernetes.run("kubectl", "delete", "--ignore-not-found", *words, check=False, timeout=200)
    finally:
        release.install_as_usual()


def test_every_command_of_the_readme_works_as_it_stands(
    kubernetes: Cluster, pulled: None, nothing_installed: None
) -> None:
    del pulled, nothing_installed
    lines: list[str] = []
    for line in commands():
        lines.append(line)
        lines += [wait for beginning, wait in WAITS.items() if line.startswith(beginning)]
    script = "\n".join(["set -eux", f"cd {ROOT}", *lines])
    path = f"{Path(sys.executable).parent}{os.pathsep}{kubernetes.environment()['PATH']}"
    with tempfile.TemporaryFile() as output:
        shell = kubernetes.popen("bash", "-c", script, output=output, env={"PATH": path})
        try:
            code = shell.wait(1200)
        except subprocess.TimeoutExpired:
            shell.terminate()
            code = shell.wait(30)
        output.seek(0)
        said = output.read().decode()
    assert code == 0, said[-6000:]
    assert re.search(r"Phase: +Succeeded", said)
    # The results of two files are in the worker's log; the third is in failed, with its reason.
    assert re.search(r"^[0-9a-f]{64} \S+ /etc/os-release$", said, re.MULTILINE)
    assert "Permission denied" in said
    assert 'customresourcedefinition.apiextensions.k8s.io "reliablequeues.claimq.dev" deleted' in said
    assert 'namespace "claimq" deleted' in said
    # The definition goes last, and what belonged to queues before it: no operator would collect it afterwards.
    words = ("get", "deployments,pdb", "--all-namespaces", "--selector=claimq.dev/queue", "-o", "name")
    eventually("the workers' objects are collected", lambda: kubernetes.kubectl(*words) == "", timeout=120)
