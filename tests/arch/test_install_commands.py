"""Commands of the pages that install from a clone name every package of the repository that is needed."""

import re
import tomllib
from pathlib import Path

import pytest

from testkit.tree import ROOT

FOLDERS = {
    tomllib.loads(path.read_text())["project"]["name"]: path.parent for path in ROOT.glob("*/pyproject.toml")
}


def needed(folder: Path) -> set[str]:
    """The folders of the packages that this one needs, itself included."""
    requirements = tomllib.loads((folder / "pyproject.toml").read_text())["project"]["dependencies"]
    names = {re.split(r"[\[=<>~; ]", requirement)[0] for requirement in requirements}
    others = [needed(FOLDERS[name]) for name in names & FOLDERS.keys()]
    return {folder.name}.union(*others)


@pytest.mark.parametrize(
    ("page", "folders"),
    [
        ("README.md", ["cli", "worker_sidecar"]),
        ("docs/testing.md", ["core", "worker_sidecar"]),
    ],
)
def test_an_install_command_names_each_package_that_it_needs(page: str, folders: list[str]) -> None:
    text = (ROOT / page).read_text()
    command = re.findall(r"pip install ('\./core.*)", text)[0]
    named = set(re.findall(r"\./(\w+)", command))
    assert named == set().union(*(needed(ROOT / folder) for folder in folders))
