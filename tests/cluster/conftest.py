"""A real Kubernetes for the tests of this folder: one for the whole run, with two nodes."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import clusterkit
from testkit import tiers

# Bringing up may first build Kubernetes (once), and images are built on the way.
BRING_UP_SECONDS = 1800
_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a real Kubernetes (root on Linux, or KUBE_CONTEXT)")
    config.addinivalue_line("markers", "own_cluster: breaks it, so it needs one that the harness brought up")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    impossible = clusterkit.why_not()
    for item in items:
        if not Path(item.path).is_relative_to(Path(__file__).parent) or not item.get_closest_marker(
            "cluster"
        ):
            continue
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BRING_UP_SECONDS))
        if impossible:
            # The plugin tells this in one loud line, and lets continuous integration fail for it.
            item.add_marker(pytest.mark.skip(reason=f"{tiers.MISSING}{impossible}"))
        elif os.environ.get("KUBE_CONTEXT") and item.get_closest_marker("own_cluster"):
            item.add_marker(pytest.mark.skip(reason="KUBE_CONTEXT is set, and this test breaks its cluster"))


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[clusterkit.Cluster]:
    """A cluster with two nodes that is up, for all tests of the run."""
    if os.environ.get("PYTEST_XDIST_WORKER"):
        pytest.fail("the tests of the cluster share one: run them with -n 0 (make test-cluster)")
    with clusterkit.session(nodes=2) as cluster:
        yield cluster


@pytest.fixture
def namespace(kubernetes: clusterkit.Cluster) -> Iterator[str]:
    """An empty namespace that takes only pods which pass Pod Security `restricted`."""
    name = f"test-{os.getpid()}-{next(_numbers)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubernetes.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    # Pods are refused until the namespace has its service account.
    kubernetes.kubectl(
        "wait", "serviceaccount/default", f"--namespace={name}", "--for=create", "--timeout=30s"
    )
    yield name
    kubernetes.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def sample_image(kubernetes: clusterkit.Cluster) -> str:
    """An image that answers HTTP on port 8080, built from the sample Dockerfile and loaded into every node."""
    dockerfile = Path(__file__).with_name("sample") / "Dockerfile"
    built = kubernetes.build_image(dockerfile, "claimq-harness-sample:1", target="answer")
    return kubernetes.load_image(built)
