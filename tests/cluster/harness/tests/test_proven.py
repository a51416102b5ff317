"""Which changes make clusterkit's own tests run again."""

from pathlib import Path

import pytest

from clusterkit import proven
from clusterkit.layout import KUBERNETES_VERSIONS


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A tree of two files and what Python caches beside them."""
    for name in ("a.py", "tests/test_a.py", "__pycache__/a.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("name", ["a.py", "tests/test_a.py"])
def test_a_changed_file_changes_the_digest(sources: Path, name: str) -> None:
    before = proven.digest(sources)
    (sources / name).write_text("changed")
    assert proven.digest(sources) != before


def test_a_renamed_file_changes_the_digest(sources: Path) -> None:
    before = proven.digest(sources)
    (sources / "a.py").rename(sources / "b.py")
    assert proven.digest(sources) != before


def test_another_release_of_kubernetes_changes_the_digest(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digests = set[str]()
    for release in KUBERNETES_VERSIONS:
        monkeypatch.setenv("KUBERNETES", release)
        digests.add(proven.digest(sources))
    assert len(digests) == len(KUBERNETES_VERSIONS)


def test_what_python_caches_does_not_change_the_digest(sources: Path) -> None:
    before = proven.digest(sources)
    (sources / "__pycache__" / "a.pyc").write_text("changed")
    assert proven.digest(sources) == before


def test_a_passed_run_is_remembered_until_all_tests_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIMQ_CACHE", str(tmp_path))
    monkeypatch.delenv(proven.ALWAYS, raising=False)
    assert not proven.is_proven()
    proven.note_passed()
    assert proven.is_proven()
    monkeypatch.setenv(proven.ALWAYS, "all")
    assert not proven.is_proven()
