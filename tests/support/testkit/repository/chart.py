"""The chart as data: what helm makes of it, object by object."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from claimq_kubernetes.port import Json
from clusterkit import toolchain
from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE

FOLDER = ROOT / "charts" / "claimq"


class Chart:
    """Runs helm on the chart, and remembers what it has rendered."""

    def __init__(self) -> None:
        """Fetches helm if the machine has none; HarnessError when that can't be done."""
        self.helm = toolchain.helm()
        self._rendered: dict[tuple[str, ...], str] = {}

    def run(
        self, *argv: str | Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """helm with these arguments; the caller looks at how it ended."""
        return subprocess.run(
            [self.helm, *argv], capture_output=True, text=True, timeout=PATIENCE, check=False, env=env
        )

    def template(
        self, *values: str, release: str = "release", namespace: str = "ns"
    ) -> subprocess.CompletedProcess[str]:
        """`helm template` with values as JSON: template('operator.replicas=2')."""
        return self.run(
            "template", release, FOLDER, f"--namespace={namespace}", *(f"--set-json={one}" for one in values)
        )

    def objects(self, *values: str, release: str = "release", namespace: str = "ns") -> list[Json]:
        """The objects of a release; AssertionError with helm's words when it makes none."""
        words = (release, namespace, *values)
        if words not in self._rendered:
            said = self.template(*values, release=release, namespace=namespace)
            assert said.returncode == 0, said.stderr
            self._rendered[words] = said.stdout
        return [one for one in yaml.safe_load_all(self._rendered[words]) if one]


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    """Those of one kind."""
    return [one for one in objects if one["kind"] == kind]


def pods(objects: list[Json]) -> Iterator[tuple[str, Json]]:
    """Every pod that comes of the objects, as (kind/name, pod with metadata and spec)."""
    for one in objects:
        name = f"{one['kind']}/{one['metadata']['name']}"
        if one["kind"] == "Pod":
            yield name, {"metadata": one["metadata"], "spec": one["spec"]}
        elif one["kind"] in ("Deployment", "StatefulSet"):
            yield name, one["spec"]["template"]
