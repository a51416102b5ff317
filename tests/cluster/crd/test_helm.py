"""helm installs, upgrades and uninstalls the chart on a real API server. No pod runs here."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusterkit import HarnessError
from testkit import tiers
from testkit.kubernetes.api_server import ApiServer
from testkit.repository.chart import FOLDER, Chart
from testkit.waiting import eventually_sync

KINDS = "all,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,crds,pvc"
Helm = Callable[..., str]
# Nothing runs pods here, so the Job that deletes the queues before their definition goes would wait forever.
NO_JOB = ("--no-hooks",)


@pytest.fixture(scope="module")
def bare() -> Iterator[ApiServer]:
    """An API server that knows nothing of claimq."""
    try:
        server = ApiServer()
    except HarnessError as error:
        tiers.skip_missing(error)
    try:
        server.start()
        server.kubectl("create", "namespace", "ns")
        yield server
    finally:
        server.close()


@pytest.fixture
def helm(bare: ApiServer) -> Iterator[Helm]:
    """helm in the namespace ns; what it says. At the end nothing of any release is left."""
    chart = Chart()

    def run(*words: str | Path, says: str = "") -> str:
        said = chart.run(*words, "--namespace=ns", env=bare.environment())
        assert (said.returncode != 0) == bool(says), said.stderr
        assert says in said.stderr
        return said.stdout

    yield run
    for release in json.loads(run("list", "--output=json")):
        run("uninstall", release["name"], *NO_JOB)
    bare.kubectl("delete", "crd", "--all")


def left(bare: ApiServer) -> list[str]:
    """Names of what is there of releases, and of the definition."""
    found = bare.kubectl("get", KINDS, "--all-namespaces", "--ignore-not-found", "-o", "name").split()
    return sorted(name for name in found if "claimq" in name)


def test_an_uninstall_leaves_the_definition_and_the_queues(bare: ApiServer, helm: Helm) -> None:
    helm("install", "release", FOLDER, "--set=valkey.enabled=true")
    assert len(left(bare)) == 13
    manifest = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"redis": {"url": "redis://r"}, "worker": {"image": "a"}},
    }
    bare.wait_until_defined()
    bare.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    helm("uninstall", "release")
    definition = "customresourcedefinition.apiextensions.k8s.io/reliablequeues.claimq.dev"
    assert left(bare) == [definition, "reliablequeue.claimq.dev/q"]
    before = bare.get("rq/q", "--namespace=ns")
    helm("install", "release", FOLDER)
    assert bare.get("rq/q", "--namespace=ns") == before


def test_without_keep_an_uninstall_leaves_nothing(bare: ApiServer, helm: Helm) -> None:
    helm("install", "release", FOLDER, "--set=crds.keep=false")
    helm("uninstall", "release", *NO_JOB)
    eventually_sync(lambda: left(bare) == [], why="the definition is gone")


def documented_upgrade() -> list[str]:
    """The upgrade as the chart's page has it, for the release of these tests."""
    found: list[str] = re.findall(r"(?m)^ +helm (upgrade .*)$", (FOLDER / "README.md").read_text())
    (line,) = found
    words = {"claimq": "release", "charts/claimq": str(FOLDER)}
    return [words.get(word, word) for word in line.replace(" --namespace claimq", "").split()]


def test_an_upgrade_brings_the_definition_and_the_values(bare: ApiServer, helm: Helm, tmp_path: Path) -> None:
    older = tmp_path / "claimq"
    for file in FOLDER.rglob("*"):
        if file.is_file():
            (older / file.relative_to(FOLDER)).parent.mkdir(parents=True, exist_ok=True)
            (older / file.relative_to(FOLDER)).write_text(file.read_text())
    definition = older / "files" / "reliablequeues.claimq.dev.yaml"
    definition.write_text(definition.read_text().replace("- rq\n", "- older\n"))
    # The older release knows nothing of one block of values, and nothing that reads it.
    values = older / "values.yaml"
    values.write_text(re.sub(r"(?ms)^networkPolicy:\n.*?(?=^\S)", "", values.read_text()))
    for reader in ("networkpolicy.yaml", "checks.yaml"):
        (older / "templates" / reader).unlink()
    helm("install", "release", older, "--set=operator.logLevel=debug")
    assert bare.get("crd/reliablequeues.claimq.dev")["spec"]["names"]["shortNames"] == ["older"]
    helm(*documented_upgrade(), "--set=operator.replicas=2")
    assert bare.get("crd/reliablequeues.claimq.dev")["spec"]["names"]["shortNames"] == ["rq"]
    upgraded = bare.get("deployment/release-claimq", "--namespace=ns")["spec"]
    assert upgraded["replicas"] == 2
    (operator,) = upgraded["template"]["spec"]["containers"]
    assert {"name": "CLAIMQ_LOG_LEVEL", "value": "debug"} in operator["env"]


def test_a_second_release_leaves_the_definition_to_the_first(bare: ApiServer, helm: Helm) -> None:
    helm("install", "release", FOLDER)
    helm("install", "second", FOLDER, says='CustomResourceDefinition "reliablequeues.claimq.dev"')
    helm("install", "second", FOLDER, "--set=crds.install=false", "--set=operator.namespaces={ns}")
    helm("uninstall", "second")
    assert "deployment.apps/release-claimq" in left(bare)


def test_a_cluster_that_is_too_old_is_refused(bare: ApiServer, helm: Helm) -> None:
    said = Chart().run("template", "release", FOLDER, "--kube-version=1.28.9")
    assert said.returncode != 0
    assert "chart requires kubeVersion: >=1.29.0-0" in said.stderr
