"""Nothing in the repository depends on one machine or one package index."""

import re
from pathlib import Path

import pytest

from testkit.repository.tree import ROOT, shown, tracked_files

HOSTS = [
    *(
        f"{name}.org"
        for name in ("pypi", "pythonhosted", "debian", "maven", "npmjs", "proxy.golang", "sum.golang")
    ),
    *(f"{name}.com" for name in ("npmjs", "ubuntu", "yarnpkg")),
    *(f"{name}.io" for name in ("crates", "goproxy")),
]
REGISTRY = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in HOSTS))
MACHINE = re.compile(r"(?<![\w.$}\-/~])/(?:work|root|Users|home/(?!nonroot\b)\w+)/|\.pyenv\b")
INDEX_OPTION = re.compile(r"^\s*--?(?:i|index-url|extra-index-url|find-links|trusted-host)\b", re.MULTILINE)
THIS = Path(__file__)
TEXTS = [path for path in tracked_files() if path != THIS and b"\0" not in path.read_bytes()[:1024]]


def _lines_with(pattern: re.Pattern[str], path: Path) -> list[str]:
    lines = enumerate(path.read_text(errors="replace").splitlines(), 1)
    return [f"{number}: {line.strip()[:100]}" for number, line in lines if pattern.search(line)]


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE], ids=["host of an index", "place on a machine"])
def test_no_file_names_the_host_of_a_package_index_or_a_place_on_a_machine(pattern: re.Pattern[str]) -> None:
    assert {shown(path): found for path in TEXTS if (found := _lines_with(pattern, path))} == {}


def test_no_lock_file_carries_addresses_of_downloads() -> None:
    names = {
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "package-lock.json",
        "yarn.lock",
        "pylock.toml",
    }
    assert [shown(path) for path in tracked_files() if path.name in names] == []


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").iterdir()), ids=shown)
def test_requirements_leave_the_index_to_the_machine(path: Path) -> None:
    text = path.read_text()
    assert not INDEX_OPTION.search(text)
    assert "://" not in text


@pytest.mark.parametrize("line", ["see /work/x", "cd /root/.cache", "/home/ann/claimq", "~/.pyenv/versions"])
def test_places_on_machines_are_recognised(line: str) -> None:
    assert MACHINE.search(line)


@pytest.mark.parametrize("line", ["a/work/b", "$HOME/work/x", "/run/claimq/claimq.sock", "GET /worker/livez"])
def test_other_paths_are_not(line: str) -> None:
    assert not MACHINE.search(line)
