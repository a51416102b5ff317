"""What the components ask for is what is locked, and what is locked is locked by hash."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from testkit.repository.tree import COMPONENTS, ROOT

LOCKS = ("build.txt", "runtime.txt", "operator.txt", "sidecar.txt", "web.txt", "dev.txt")
# Extras that no image and no `make demo` needs: only the tests do.
LOCKED_FOR_CHECKS = {"reload": "local", "otel": "core"}
PINNED = re.compile(
    r"^([A-Za-z0-9._-]+)==([^\s;\\]+)[^\n]*(?:\n {4}--hash=sha256:[0-9a-f]{64}[^\n]*)+", re.MULTILINE
)
ANY = re.compile(r"^[A-Za-z0-9]\S*==", re.MULTILINE)


def _locked(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / name).read_text()
    return {canonicalize_name(match[1]): match[2] for match in PINNED.finditer(text)}


def _project(component: str) -> Any:
    return tomllib.loads((ROOT / component / "pyproject.toml").read_text())["project"]


def _asked(component: str) -> list[Requirement]:
    project = _project(component)
    texts: list[str] = list(project["dependencies"])
    for name, extra in project.get("optional-dependencies", {}).items():
        texts += extra if name not in ("kubernetes", *LOCKED_FOR_CHECKS) else ()
    return [Requirement(text) for text in texts]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_requirement_has_its_hash(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert len(PINNED.findall(text)) == len(ANY.findall(text)) > 0


@pytest.mark.parametrize("component", COMPONENTS)
def test_what_a_component_asks_for_is_locked(component: str) -> None:
    file = "operator.txt" if component == "operator" else "runtime.txt"
    locked = _locked(file)
    versions = {
        canonicalize_name(str(_project(one)["name"])): str(_project(one)["version"]) for one in COMPONENTS
    }
    for wanted in _asked(component):
        version = (versions | locked).get(canonicalize_name(wanted.name))
        assert version is not None, f"{wanted.name} is not in requirements/{file.removesuffix('.txt')}.in"
        assert wanted.specifier.contains(version), f"{wanted} but {version} is locked"


@pytest.mark.parametrize("extra", LOCKED_FOR_CHECKS)
def test_what_only_an_extra_needs_is_locked_for_the_checks(extra: str) -> None:
    (wanted,) = map(Requirement, _project(LOCKED_FOR_CHECKS[extra])["optional-dependencies"][extra])
    assert wanted.specifier.contains(_locked("dev.txt")[canonicalize_name(wanted.name)])
    assert canonicalize_name(wanted.name) not in _locked("runtime.txt")


def test_what_is_locked_for_running_is_the_same_for_the_checks() -> None:
    assert _locked("dev.txt").items() >= {**_locked("build.txt"), **_locked("runtime.txt")}.items()
    assert _locked("dev.txt").items() >= _locked("operator.txt").items()


def test_the_operators_image_has_all_that_the_library_needs_there() -> None:
    core = _project("core")
    for text in [*core["dependencies"], *core["optional-dependencies"]["redis"]]:
        assert canonicalize_name(Requirement(text).name) in _locked("operator.txt")


def test_the_components_have_one_version() -> None:
    assert len({_project(component)["version"] for component in COMPONENTS}) == 1


def test_an_app_needs_the_library_and_nothing_else() -> None:
    assert _project("core")["dependencies"] == []


def test_each_component_ships_the_licence() -> None:
    whole = (ROOT / "LICENSE").read_text()
    for component in COMPONENTS:
        assert Path(ROOT / component / "LICENSE").read_text() == whole
