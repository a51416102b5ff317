"""`make cluster-demo` as its user runs it, on the cluster of the tests: it proves its point and leaves nothing behind.

It installs a release of its own; the release of the other tests is removed for that time. tests/unit/examples
has the tests that it notices an error.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterkit import Cluster
from clusterkit.commands import WAIT, eventually
from testkit.on_cluster.cluster_images import TAG
from testkit.on_cluster.release import CRD, Release
from testkit.programs.make import command_of
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT

pytestmark = pytest.mark.cluster

LONGEST = 1200
NAMESPACES = ("claimq-demo", "checksums")
VOLUMES = ("claimq-demo-valkey", "claimq-demo-results")


@pytest.fixture
def nothing_installed(kubernetes: Cluster, release: Release) -> Iterator[None]:
    """A cluster without a release; whatever a demo that was killed has left is taken away at the end."""
    try:
        release.uninstall()
        yield
        if kubernetes.run("kubectl", "get", "crd", CRD, check=False).returncode == 0:
            kubernetes.run("kubectl", "delete", "rq", "--all", "--namespace=checksums", check=False)
        helm = ("uninstall", "claimq", "--namespace=claimq-demo", "--wait", "--ignore-not-found")
        kubernetes.run("helm", *helm, check=False)
        for what in (
            ["crd", CRD],
            ["namespace", *NAMESPACES],
            ["pv", *VOLUMES],
        ):
            words = ("delete", "--ignore-not-found", *what, WAIT)
            kubernetes.run("kubectl", *words, check=False)
    finally:
        release.install_as_usual()


def test_the_demo_proves_every_checksum_and_leaves_nothing_behind(
    kubernetes: Cluster, nothing_installed: None, tmp_path: Path
) -> None:
    where = {"CLAIMQ_CLUSTER": kubernetes.name, "CLAIMQ_IMAGE_TAG": TAG}
    if os.environ.get("KUBE_CONTEXT"):
        del where["CLAIMQ_CLUSTER"]
    words = ["env", *command_of("cluster-demo")]
    with Process(words, log=tmp_path / "said", env=where, cwd=ROOT) as demo:
        try:
            code = demo.wait(LONGEST)
        except TimeoutError:
            code = demo.terminate(120)  # it takes away what it has made
    said = (tmp_path / "said").read_text()
    print(said)
    assert code == 0, said[-6000:]
    # On the cluster that is up, and on no other.
    assert "bringing up a cluster" not in said
    assert "correct    2,000 checksums, equal to those of sha256sum\n" in said
    assert "failed     5, each unreadable, with its reason\n" in said
    killed = re.search(r"killed the pod (\S+) with [1-9]\d* items in progress\n", said)
    assert killed is not None, said
    assert f"killed     {killed[1]}\n" in said
    assert re.search(r"^workers    0 -> [1-9] -> 0$", said, re.MULTILINE)
    assert "MISTAKE" not in said
    assert said.endswith("All accounted for: no result is missing, invented or wrong.\n")
    eventually("nothing of it is left", lambda: not left(kubernetes))


def left(kubernetes: Cluster) -> set[str]:
    """What there still is of all that the demo makes for the whole cluster."""
    names = {f"customresourcedefinition.apiextensions.k8s.io/{CRD}"}
    names |= {f"namespace/{name}" for name in NAMESPACES} | {f"persistentvolume/{name}" for name in VOLUMES}
    return names & set(kubernetes.kubectl("get", "namespaces,crd,pv", "-o", "name").split())
