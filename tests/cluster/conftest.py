"""What the tests of this folder run on, one for the whole run: a real Kubernetes, or an API server alone."""

import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from xdist.remote import Producer  # pyright: ignore[reportMissingTypeStubs] - it has none
from xdist.scheduler import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs] - likewise

import clusterkit
from clusterkit.commands import WAIT, eventually
from clusterkit.images import build_image
from testkit import tiers
from testkit.kubernetes.api_server import ApiServer
from testkit.on_cluster.cluster_images import ClusterImages, build_images, load_images
from testkit.on_cluster.queue_on_cluster import QueueOnCluster, queue_on
from testkit.on_cluster.release import (
    Release,
    create_namespace,
    delete_queues,
    is_rolled_out,
    provide_volume,
    refuse_if_installed,
)
from testkit.on_cluster.release import namespace as namespace_of

# Bringing up may first build Kubernetes (once), and waits for the clusters of another run; images are built on the way.
BRING_UP_SECONDS = 3600
_numbers = itertools.count(1)
# The tests of each of these files run in one process: they share a cluster's name or a module's fixture.
TOGETHER = {"test_lifecycle.py", "test_invalid_queues.py", "test_images.py", "test_helm.py", "test_chart.py"}


class OneByOne(LoadScopeScheduling):
    """Gives each process the next test when it is ready for one; a file of TOGETHER goes to one process as a whole."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return file if Path(file).name in TOGETHER else nodeid


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneByOne | None:
    """Distributes the tests of this folder; None leaves it to `--dist`."""
    return OneByOne(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a real Kubernetes (root on Linux, or KUBE_CONTEXT)")
    config.addinivalue_line("markers", "own_cluster: breaks it, so it needs one that the harness brought up")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The short tests come last, so that no process is left with a long one at the end.
    items.sort(key=lambda item: "kubernetes" not in getattr(item, "fixturenames", ()))
    impossible = clusterkit.why_not()
    for item in items:
        if "api_server" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BRING_UP_SECONDS))
        if not Path(item.path).is_relative_to(Path(__file__).parent) or not item.get_closest_marker(
            "cluster"
        ):
            continue
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BRING_UP_SECONDS))
        if impossible:
            # The plugin reports this in one line, and fails the run in continuous integration.
            item.add_marker(pytest.mark.skip(reason=f"{tiers.MISSING}{impossible}"))
        elif os.environ.get("KUBE_CONTEXT") and item.get_closest_marker("own_cluster"):
            item.add_marker(pytest.mark.skip(reason="KUBE_CONTEXT is set, and this test breaks its cluster"))


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """An API server that knows ReliableQueues and has the namespace media, without a cluster: nothing runs in it.

    It needs no root and starts in seconds. One for all tests: who makes queues in `media` removes them.
    """
    try:
        server = ApiServer()
    except clusterkit.HarnessError as error:
        tiers.skip_missing(error)
    with closing(server):
        server.start()
        server.define_queues()
        server.kubectl("create", "namespace", "media")
        yield server


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[clusterkit.Cluster]:
    """A cluster with two nodes that is up, for all tests of this process: each has one of its own."""
    name, process = os.environ.get("CLAIMQ_CLUSTER"), os.environ.get("PYTEST_XDIST_WORKER")
    if process and os.environ.get("KUBE_CONTEXT"):
        pytest.fail("an existing cluster is one for all tests: run them in one process (make test-cluster)")
    if process:
        name = f"{name or 'claimq-tests'}-{process}"
    with clusterkit.session(nodes=2, name=name, images=partial(build_images, build_image)) as cluster:
        yield cluster


@pytest.fixture
def namespace(kubernetes: clusterkit.Cluster) -> Iterator[str]:
    """An empty namespace that takes only pods which pass Pod Security `restricted`."""
    with namespace_of(kubernetes, f"test-{os.getpid()}-{next(_numbers)}", wait=False) as name:
        yield name


@pytest.fixture(scope="session")
def sample_image(kubernetes: clusterkit.Cluster) -> str:
    """An image that answers HTTP on port 8080, built from the sample Dockerfile and loaded into every node."""
    dockerfile = Path(__file__).parent / "harness" / "tests" / "sample" / "Dockerfile"
    built = kubernetes.build_image(dockerfile, "claimq-harness-sample:1", target="answer")
    return kubernetes.load_image(built)


@pytest.fixture(scope="session")
def images(kubernetes: clusterkit.Cluster) -> ClusterImages:
    """This repository's images, on every node."""
    return load_images(kubernetes)


@pytest.fixture(scope="session")
def release(kubernetes: clusterkit.Cluster, images: ClusterImages) -> Iterator[Release]:
    """A release of the chart that serves the whole cluster, with a Valkey whose items survive it.

    One for all tests: a test that changes it restores it.
    """
    refuse_if_installed(kubernetes)
    if kubernetes.is_own and os.environ.get("CLAIMQ_CLUSTER_KEEP") != "1":
        create_namespace(kubernetes, "claimq-system")
        made = _install(kubernetes, images)
        yield made
        # No uninstall: the cluster is deleted next, and test_uninstall.py proves that nothing is left of a release.
        _delete_queues(kubernetes)
        return
    with namespace_of(kubernetes, "claimq-system"):
        made = Release(kubernetes, images, "claimq", "claimq-system")
        try:
            yield _install(kubernetes, images)
            _delete_queues(kubernetes)
        finally:
            made.uninstall()
            kubernetes.kubectl("delete", "pv", "claimq-tests-valkey", "--ignore-not-found", "--wait=false")


def _install(kubernetes: clusterkit.Cluster, images: ClusterImages) -> Release:
    made = Release(kubernetes, images, "claimq", "claimq-system")
    provide_volume(kubernetes, made.namespace, f"data-{made.valkey}-0", "claimq-tests-valkey")
    made.install_as_usual()
    return made


def _delete_queues(kubernetes: clusterkit.Cluster) -> None:
    """Delete all queues, which fails when the operator does not release one."""
    kubernetes.kubectl("delete", "reliablequeues", "--all", "--all-namespaces", WAIT)


def _wait_until_whole(kubernetes: clusterkit.Cluster, release: Release) -> None:
    """Until nodes, names and the release's Valkey serve: after a node or the API server was away, pods that never ended
    count as not ready for a while, and their service refuses connections."""
    for node in kubernetes.nodes:
        kubernetes.wait_for_node(node, ready=True)
    served = [f"/apis/apps/v1/namespaces/{release.namespace}/statefulsets/{release.valkey}"]
    if kubernetes.is_own:
        served.append("/apis/apps/v1/namespaces/kube-system/deployments/coredns")
    for path in served:
        eventually(f"{path} is rolled out", partial(is_rolled_out, kubernetes, path))


@pytest.fixture
def team(kubernetes: clusterkit.Cluster, release: Release) -> Iterator[str]:
    """A user's namespace; the queues in it are deleted before the namespace."""
    _wait_until_whole(kubernetes, release)
    # Its name is used only once, so no test needs to wait until it is gone.
    with namespace_of(kubernetes, f"team-{os.getpid()}-{next(_numbers)}", wait=False) as name:
        yield name
        delete_queues(kubernetes, name)


@pytest.fixture
def queue(release: Release, team: str) -> Iterator[QueueOnCluster]:
    """A queue `work` of the team's on the release's Valkey; the test applies it."""
    with queue_on(release, team) as made:
        yield made


def _said(kubernetes: clusterkit.Cluster, words: list[str]) -> str:
    """What kubectl prints; why it does not, where the test has broken what it asks."""
    try:
        said = kubernetes.run("kubectl", *words, "--request-timeout=20s", timeout=60, check=False)
    except clusterkit.HarnessError as error:
        return str(error)
    lines = (said.stdout + said.stderr).splitlines()
    # In an outage of the API server, the operator's log has little else.
    return "\n".join(line[:1000] for line in lines if "failed; will retry" not in line)[-8000:]


def _logs_of_workers(item: pytest.Item) -> list[list[str]]:
    """How to ask for what the pods of a test's queues said, where it has a namespace of its own for them."""
    team = getattr(item, "funcargs", {}).get("team")
    if not isinstance(team, str):
        return []
    which = [f"--namespace={team}", "--selector=claimq.dev/queue", "--all-containers", "--prefix"]
    return [["logs", *which, "--tail=30", "--max-log-requests=50"]]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a failure: what operator and workers said, and how queues and pods are."""
    report = yield
    release = getattr(item, "funcargs", {}).get("release")
    if report.failed and isinstance(release, Release):
        for words in (
            ["logs", f"deployment/{release.operator}", f"--namespace={release.namespace}", "--tail=300"],
            *_logs_of_workers(item),
            ["get", "reliablequeues,pods,pvc,pv", "--all-namespaces", "-o", "wide"],
            ["get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"],
            ["get", "reliablequeues", "--all-namespaces", "-o", "jsonpath={.items[*].status.conditions}"],
            ["describe", "nodes"],
            ["describe", "pods,endpoints", "--namespace=kube-system"],
        ):
            report.sections.append((f"kubectl {' '.join(words)}", _said(release.cluster, words)))
        for daemon, end in release.cluster.ends_of_logs().items():
            report.sections.append((f"log of {daemon}", end))
    return report
