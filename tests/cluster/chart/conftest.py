"""The chart on a real cluster."""

import itertools
from collections.abc import Generator, Iterator

import pytest

from clusterkit import Cluster
from testkit.cluster_images import ClusterImages, load_images
from testkit.release import Release, namespace, provide_volume, refuse_if_installed

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def images(kubernetes: Cluster) -> ClusterImages:
    """This repository's images, on every node."""
    return load_images(kubernetes)


@pytest.fixture(scope="module")
def release(kubernetes: Cluster, images: ClusterImages) -> Iterator[Release]:
    """A release that serves the whole cluster, with a Valkey whose items survive it."""
    refuse_if_installed(kubernetes)
    with namespace(kubernetes, "claimq-system") as name:
        made = Release(kubernetes, images, "claimq", name)
        provide_volume(kubernetes, name, f"data-{made.valkey}-0", "claimq-tests-valkey")
        made.install("--set=valkey.enabled=true")
        yield made
        kubernetes.kubectl("delete", "reliablequeues", "--all", "--all-namespaces", "--timeout=60s")
        made.uninstall()
        kubernetes.kubectl("delete", "pv", "claimq-tests-valkey", "--ignore-not-found", "--wait=false")


@pytest.fixture
def team(kubernetes: Cluster, release: Release) -> Iterator[str]:
    """A namespace of somebody who uses queues; the queues in it are deleted before the namespace."""
    with namespace(kubernetes, f"team-{next(_numbers)}") as name:
        yield name
        kubernetes.kubectl("delete", "reliablequeues", "--all", f"--namespace={name}", "--timeout=60s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure: what the operator said, and how queues and pods are."""
    report = yield
    release = getattr(item, "funcargs", {}).get("release")
    if report.failed and isinstance(release, Release):
        for words in (
            ["logs", f"deployment/{release.operator}", f"--namespace={release.namespace}", "--tail=60"],
            ["get", "reliablequeues,pods", "--all-namespaces", "-o", "wide"],
            ["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"],
            ["get", "reliablequeues", "--all-namespaces", "-o", "jsonpath={.items[*].status.conditions}"],
        ):
            said = release.cluster.run("kubectl", *words, check=False)
            report.sections.append((f"kubectl {' '.join(words)}", (said.stdout + said.stderr)[-8000:]))
    return report
