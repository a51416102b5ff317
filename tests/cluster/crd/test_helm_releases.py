"""Releases of Helm that bring, keep and take over the definition, on a real API server of the test's own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from clusterkit import HarnessError
from testkit import tiers
from testkit.kubernetes.api_server import ApiServer
from testkit.repository.chart import FOLDER, Chart
from testkit.repository.tree import ROOT

DEFINITION = ROOT / "crds" / "reliablequeues.claimq.dev.yaml"
QUEUE = {
    "apiVersion": "claimq.dev/v1alpha1",
    "kind": "ReliableQueue",
    "metadata": {"name": "orders"},
    "spec": {"redis": {"url": "redis://redis:6379/0"}, "worker": {"image": "app:1"}},
}


class Helm:
    """helm on an API server. Nothing runs there, so it never waits."""

    def __init__(self, api: ApiServer) -> None:
        self.api = api
        self._chart = Chart()

    def __call__(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        return self._chart.run(*argv, env={**os.environ, **self.api.environment()})


@pytest.fixture
def helm() -> Iterator[Helm]:
    try:
        api = ApiServer()
        made = Helm(api)
    except HarnessError as error:
        tiers.skip_missing(error)
    with closing(api):
        api.start()
        for namespace in ("old", "new"):
            api.kubectl("create", "namespace", namespace)
        yield made


def chart_with_a_queue(folder: Path, *, brings_definition: bool) -> Path:
    dependency = {"name": "claimq", "version": ">=0.0.0-0", "condition": "claimq.enabled"}
    body = {"apiVersion": "v2", "name": "shop", "version": "1.0.0", "dependencies": [dependency]}
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(yaml.safe_dump(body))
    (folder / "templates" / "queue.yaml").write_text(yaml.safe_dump(QUEUE))
    (folder / "values.yaml").write_text(yaml.safe_dump({"claimq": {"crds": {"install": False}}}))
    shutil.copytree(FOLDER, folder / "charts" / "claimq")
    if brings_definition:
        (folder / "crds").mkdir()
        shutil.copy(DEFINITION, folder / "crds")
    return folder


def test_a_release_may_bring_a_queue_with_the_definition_in_its_folder_crds(
    helm: Helm, tmp_path: Path
) -> None:
    install = ("install", "shop", "--namespace=old", "--set=claimq.enabled=true")
    without = helm(*install, chart_with_a_queue(tmp_path / "without", brings_definition=False))
    assert "ensure CRDs are installed first" in without.stderr
    made = helm(*install, chart_with_a_queue(tmp_path / "with", brings_definition=True))
    assert made.returncode == 0, made.stderr
    assert helm.api.get("rq", "orders", "-n", "old")["spec"]["worker"]["image"] == "app:1"


def test_a_kept_definition_is_taken_over_by_a_release_elsewhere(helm: Helm) -> None:
    assert helm("install", "first", FOLDER, "--namespace=old").returncode == 0
    assert helm("uninstall", "first", "--namespace=old").returncode == 0
    install = ("install", "second", FOLDER, "--namespace=new")
    assert "invalid ownership metadata" in helm(*install).stderr
    words = "annotate crd reliablequeues.claimq.dev --overwrite"
    names = ("meta.helm.sh/release-name=second", "meta.helm.sh/release-namespace=new")
    readme = " ".join((FOLDER / "README.md").read_text().split())
    assert (
        f"kubectl {words} meta.helm.sh/release-name=NAME meta.helm.sh/release-namespace=NAMESPACE" in readme
    )
    helm.api.kubectl(*words.split(), *names)
    made = helm(*install)
    assert made.returncode == 0, made.stderr
