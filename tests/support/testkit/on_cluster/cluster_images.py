"""The images of this repository, built once for a run of the tests and put where a cluster's nodes find them."""

import os
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from clusterkit import Cluster
from clusterkit.images import BuiltImage
from testkit.repository.tree import ROOT
from testkit.servers import binaries

# Another tag keeps the images of two checkouts apart that are tested on one machine at the same time.
TAG = os.environ.get("CLAIMQ_IMAGE_TAG") or "tests"


@dataclass(frozen=True)
class ClusterImages:
    """Names as manifests have them."""

    operator: str
    sidecar: str
    web: str
    checksums: str
    valkey: str

    def values(self) -> list[str]:
        """Options for helm: the chart with these images."""
        named = {"operator": self.operator, "sidecar": self.sidecar, "web": self.web, "valkey": self.valkey}
        options: list[str] = []
        for name, image in named.items():
            repository, _, tag = image.rpartition(":")
            options += [
                f"--set-string={name}.image.repository={repository}",
                f"--set-string={name}.image.tag={tag}",
            ]
        return options


def load_images(cluster: Cluster, tag: str = TAG) -> ClusterImages:
    """Builds all five from the Dockerfiles as they stand, and loads them."""
    return ClusterImages(*(cluster.load_image(image) for image in build_images(cluster.build_image, tag)))


def build_images(build: Callable[..., BuiltImage], tag: str = TAG) -> Iterator[BuiltImage]:
    """Builds all five, one at each step: operator, sidecar, web, checksums, valkey."""
    dockerfile, version = ROOT / "Dockerfile", _version()
    for name in ("operator", "sidecar", "web"):
        values = {"VERSION": version, "REVISION": tag}
        yield build(dockerfile, f"claimq-{name}:{tag}", target=name, build_args=values)
    example = ROOT / "examples" / "checksums" / "Dockerfile"
    yield build(example, f"claimq-example-checksums:{tag}", context=ROOT)
    with tempfile.TemporaryDirectory() as folder:
        # The whole context is one program.
        shutil.copy(binaries.find("valkey").path, Path(folder) / "valkey-server")
        valkey = ROOT / "tests" / "cluster" / "images" / "valkey.Dockerfile"
        yield build(valkey, f"claimq-test-valkey:{tag}", context=Path(folder))


def _version() -> str:
    return str(tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]["version"])
