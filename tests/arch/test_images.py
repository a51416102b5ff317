"""The Dockerfiles: what is pinned, what is locked, who runs."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from testkit.repository.tree import ROOT, shown

DOCKERFILES = [ROOT / "Dockerfile", ROOT / "examples" / "checksums" / "Dockerfile"]
RUNS_AS = "65532:65532"


def _instructions(path: Path) -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE))
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line.strip()]


def _locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return {
        canonicalize_name(found[1]): found[2]
        for found in re.finditer(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE)
    }


@pytest.mark.parametrize("path", DOCKERFILES, ids=shown)
def test_every_image_starts_from_one_minor_version_of_python(path: Path) -> None:
    (default,) = [value for _, value in _instructions(path) if value.startswith("PYTHON_IMAGE=")]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+-slim", default)
    stages = {value.split()[2] for word, value in _instructions(path) if word == "FROM" and " AS " in value}
    bases = {value.split()[0] for word, value in _instructions(path) if word == "FROM"}
    assert bases - stages == {"${PYTHON_IMAGE}"}


def test_all_images_start_from_the_same_python() -> None:
    assert (
        len(
            {
                re.findall(r"PYTHON_IMAGE=(\S+-slim)$", path.read_text(), re.MULTILINE)[0]
                for path in DOCKERFILES
            }
        )
        == 1
    )


@pytest.mark.parametrize("path", DOCKERFILES, ids=shown)
def test_whatever_is_installed_is_locked_by_hash_or_ours(path: Path) -> None:
    for _, value in _instructions(path):
        for command in re.findall(r"pip \S*.*?(?:install|wheel) [^&]*", value):
            assert "--require-hashes" in command or "--no-index" in command
            assert not re.search(r"--(extra-)?index-url|--find-links|--trusted-host|https?:", command)


@pytest.mark.parametrize("path", DOCKERFILES, ids=shown)
def test_nothing_runs_as_root(path: Path) -> None:
    """Each image ends as this user, and nothing is run in it afterwards."""
    whole = "\n".join(f"{word} {value}" for word, value in _instructions(path))
    images = [stage for stage in whole.split("\nFROM ") if "\nENTRYPOINT " in stage or "\nCMD " in stage]
    assert images
    for image in images:
        assert re.findall(r"^USER (.*)$", image, re.MULTILINE) == [RUNS_AS]
        assert "\nRUN " not in image.partition("\nUSER ")[2]


@pytest.mark.parametrize(
    ("image", "folders"),
    [
        ("sidecar", ("worker_sidecar", "core", "process")),
        ("operator", ("operator", "control", "kubernetes_client", "core", "process")),
        ("web", ("web", "admin", "kubernetes_client", "control", "process", "core")),
    ],
)
def test_an_image_has_what_its_components_ask_for_and_the_same_as_everywhere(
    image: str, folders: tuple[str, ...]
) -> None:
    locked = _locked(f"{image}.txt")
    for folder in folders:
        project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
        extras = project.get("optional-dependencies", {})
        asked = [*project["dependencies"], *extras.get("kubernetes", ()), *extras.get("redis", ())]
        for wanted in map(Requirement, asked):
            name = canonicalize_name(wanted.name)
            assert name.startswith("claimq") or wanted.specifier.contains(locked[name])
    elsewhere = _locked("operator.txt") | _locked("runtime.txt")
    assert locked == {name: elsewhere[name] for name in locked}


def test_the_sidecars_image_knows_nothing_of_kubernetes() -> None:
    assert not {"kopf", "kubernetes", "aiohttp", "pydantic", "pyyaml"} & _locked("sidecar.txt").keys()


def test_only_what_the_images_are_made_of_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in ignored
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copied = {
        source.rstrip("/")
        for path in DOCKERFILES
        for word, value in _instructions(path)
        if word == "COPY" and "--from" not in value
        for source in value.split()[:-1]
    }
    assert sent == copied
