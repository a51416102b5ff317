"""The images as they are built: what is in them, who runs, how much they weigh."""

import gzip
import io
import json
import re
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from clusterkit import images
from testkit.on_cluster.cluster_images import build_images
from testkit.repository.tree import ROOT

# No cluster is brought up; but root and Linux are needed, as they are for one of our own.
pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster]
WHITEOUT = ".wh."


@dataclass(frozen=True)
class Image:
    """An image's settings, the files that a container sees, and the bytes that it adds to its base."""

    config: dict[str, Any]
    files: dict[str, tarfile.TarInfo]
    added: int

    @property
    def packages(self) -> set[str]:
        """The Python distributions in it, by their normal names."""
        found = (
            re.search(r"(?:/site-packages|^app)/([^/]+)-[^-/]+\.dist-info/METADATA$", name)
            for name in self.files
        )
        return {re.sub(r"[-_.]+", "-", one[1]).lower() for one in found if one}


def read_image(archive: Path) -> Image:
    """An image out of its docker-archive, layer upon layer."""
    files: dict[str, tarfile.TarInfo] = {}
    sizes: list[int] = []
    with tarfile.open(archive) as outer:
        manifest = _manifest(outer)
        for layer in manifest["Layers"]:
            content = _bytes(outer, layer)
            sizes.append(len(content))
            with tarfile.open(fileobj=io.BytesIO(content)) as inner:
                for member in inner:
                    _lay(files, member)
        return Image(json.loads(_bytes(outer, manifest["Config"]))["config"], files, sum(sizes[1:]))


def _manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(_bytes(archive, "manifest.json"))[0]
    return manifest


def _bytes(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    assert file is not None
    return file.read()


def _lay(files: dict[str, tarfile.TarInfo], member: tarfile.TarInfo) -> None:
    name = member.name.removeprefix("./").rstrip("/")
    folder, _, last = name.rpartition("/")
    if not last.startswith(WHITEOUT):
        files[name] = member
        return
    gone = f"{folder}/" if last == f"{WHITEOUT}{WHITEOUT}.opq" else f"{folder}/{last.removeprefix(WHITEOUT)}"
    for covered in [one for one in files if one == gone or one.startswith(gone.rstrip("/") + "/")]:
        del files[covered]


BUILT: dict[str, Image] = {}


@pytest.fixture(params=["operator", "sidecar", "web", "checksums"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# The last is an app's, whose base is its owner's choice.
OURS = pytest.mark.parametrize("name", ["operator", "sidecar", "web"], indirect=True)
PACKAGES = {"operator": "claimq_operator", "sidecar": "claimq_sidecar", "web": "claimq_web"}
SHARED = {"claimq", "claimq-process"}
COMPONENTS_OF = {
    "operator": {*SHARED, "claimq-control", "claimq-kubernetes", "claimq-operator"},
    "sidecar": {*SHARED, "claimq-sidecar"},
    "web": {*SHARED, "claimq-control", "claimq-kubernetes", "claimq-admin", "claimq-web"},
}


@pytest.fixture
def image(name: str) -> Image:
    if name not in BUILT:
        BUILT[name] = read_image(archives()[name])
    return BUILT[name]


@cache
def archives() -> dict[str, Path]:
    """The docker-archives of the images that the clusters of the tests run too, built unless they are there."""
    names = ("operator", "sidecar", "web", "checksums")
    # The names come first, so that the servers' image, which follows these, is not built.
    return {name: image.archive for name, image in zip(names, build_images(images.build_image), strict=False)}


def test_no_image_runs_as_root_or_imports_from_the_working_directory(image: Image, name: str) -> None:
    assert image.config["User"] == "65532:65532"
    environment = dict(one.split("=", 1) for one in image.config["Env"])
    if name != "checksums":
        assert environment["PYTHONSAFEPATH"] == "1"
        program = [word for word in image.config["Entrypoint"] if word != "-OO"]
        assert program[:3] == ["python", "-m", PACKAGES[name]]


def test_labels_say_what_it_is(image: Image, name: str) -> None:
    labels = {
        key.removeprefix("org.opencontainers.image."): text for key, text in image.config["Labels"].items()
    }
    assert labels["title"].endswith(name)
    assert labels["licenses"] == "Apache-2.0"
    assert labels["description"]
    if name != "checksums":
        assert labels["version"] == "0.1.0"
        assert re.fullmatch(r"python:3\.\d+-slim", labels["base.name"])


@OURS
def test_nothing_in_it_can_install_or_compile(image: Image, name: str) -> None:
    programs = re.compile(r"(^|/)s?bin/(pip[\d.]*|easy_install|gcc|g\+\+|cc|make|ld|wheel)$")
    assert [one for one in image.files if programs.search(one)] == []
    assert image.packages & {"pip", "setuptools", "wheel", "hatchling"} == set()
    assert [one for one in image.files if "/ensurepip/" in one] == []


def test_no_address_of_a_package_index_stays_in_it(image: Image) -> None:
    settings = [one for one in image.files if one.endswith(("pip.conf", ".pypirc", "pip.ini"))]
    assert [one for one in settings if image.files[one].size] == []


def locked(file: str) -> set[str]:
    text = (ROOT / "requirements" / file).read_text()
    # Only Pythons before 3.11.3 need async-timeout; the base that stands in here may be one.
    return {one.lower() for one in re.findall(r"^([A-Za-z0-9._-]+)==", text, re.MULTILINE)} - {
        "async-timeout"
    }


def test_it_has_what_is_locked_and_nothing_else(image: Image, name: str) -> None:
    own = COMPONENTS_OF.get(name)
    wanted = locked(f"{name}.txt") | own if own else {"claimq"}
    # The example's is an app's: its base has pip, and claimq.worker is all that was added.
    own_tools = set[str]() if own else {"pip", "setuptools", "wheel"}
    assert image.packages - own_tools - {"async-timeout"} == wanted


@OURS
def test_everything_it_runs_is_compiled_already(image: Image, name: str) -> None:
    """The root file system is read-only, so Python could not keep what it compiles."""
    package = PACKAGES[name]
    own = re.compile(
        rf"site-packages/({package}|claimq|redis)/.*\.py$|/python3\.\d+/(ssl|asyncio/base_events)\.py$"
    )
    sources = [one for one in image.files if own.search(one)]
    assert len(sources) > 50
    kind = r"\.opt-2" if "-OO" in image.config["Entrypoint"] else ""
    compiled = {
        re.sub(rf"__pycache__/([^/]+)\.cpython-\d+{kind}\.pyc$", r"\1.pyc", one) for one in image.files
    }
    assert [one for one in sources if f"{one}c" not in compiled] == []


# In MB, over the base image; measured 18, 126, 143 and 3.
MOST = {"sidecar": 20, "operator": 150, "web": 150, "checksums": 4}


def test_it_adds_little_to_its_base(image: Image, name: str) -> None:
    print(f"{name}: {image.added / 1e6:.1f} MB over its base")
    assert image.added < MOST[name] * 1e6


def test_the_sidecar_adds_little_to_what_a_node_pulls() -> None:
    with tarfile.open(archives()["sidecar"]) as archive:
        own = [_bytes(archive, layer) for layer in _manifest(archive)["Layers"][1:]]
    packed = sum(len(gzip.compress(layer, 6)) for layer in own)
    print(f"{packed / 1e6:.1f} MB compressed over the base")  # measured 5.7
    assert 1e6 < packed < 7e6
