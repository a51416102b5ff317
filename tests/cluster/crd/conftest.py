"""An API server with the CRD, without a cluster: nothing runs in it, it needs no root and starts in seconds."""

from collections.abc import Iterator

import pytest

from clusterkit import HarnessError
from testkit import tiers
from testkit.api_server import ApiServer
from testkit.tree import ROOT
from testkit.waiting import eventually_sync

# The first time Kubernetes is built.
BUILD_SECONDS = 1800
PATH = "/apis/claimq.dev/v1alpha1/namespaces/media/reliablequeues"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "api_server" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BUILD_SECONDS))


@pytest.fixture(scope="module")
def api_server() -> Iterator[ApiServer]:
    """An API server that knows ReliableQueues and has the namespace media."""
    try:
        server = ApiServer()
    except HarnessError as error:
        pytest.skip(f"{tiers.MISSING}{error}")
    try:
        server.start()
        server.kubectl("create", "-f", str(ROOT / "crds" / "reliablequeues.claimq.dev.yaml"))
        server.kubectl("create", "namespace", "media")
        server.kubectl(
            "wait", "--for=condition=Established", "crd/reliablequeues.claimq.dev", "--timeout=30s"
        )
        # Established comes a moment before requests of the kind are answered, by name and by the schema for clients.
        eventually_sync(lambda: server.request("GET", PATH)[0] == 200)
        eventually_sync(lambda: server.kubectl_run("explain", "reliablequeues.spec").returncode == 0)
        yield server
    finally:
        server.close()
