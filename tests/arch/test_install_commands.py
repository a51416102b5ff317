"""Commands of the pages that install from a clone name every package of the repository that is needed."""

import re
import tomllib
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT, shown, tracked_files

FOLDERS = {
    tomllib.loads(path.read_text())["project"]["name"]: path.parent for path in ROOT.glob("*/pyproject.toml")
}

OF_AN_INDEX = re.compile(r"""(?<!helm )\binstall ['"]?claimq[\[\w=-]*|pip install [^\n`]*[ '"]claimq\[""")
"""The name of a package of claimq where an installer looks it up in an index."""
TEXTS = {".md", ".py", ".yaml", ".toml", ".txt", ""}


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


def test_nothing_advises_to_install_claimq_from_an_index() -> None:
    """Until the release anybody could take its names there."""
    texts = [
        path for path in tracked_files() if path.suffix in TEXTS and path != Path(__file__) and path.is_file()
    ]
    found = {shown(path): OF_AN_INDEX.findall(path.read_text(errors="replace")) for path in texts}
    assert {name: words for name, words in found.items() if words} == {}
