"""docs/tutorial.md and the first queue of README.md: each command as it stands there, and what it prints."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.programs.console import PageRunner, blocks, is_output, normalized, shell_in
from testkit.repository.tree import ROOT


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageRunner]:
    for name in [name for name in os.environ if name.startswith("CLAIMQ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    # In a directory with a long name the sockets would be elsewhere.
    with tempfile.TemporaryDirectory(prefix="claimq-") as name:
        pages = PageRunner(Path(name), shell_in(Path(name)), tmp_path / "first-terminal.log")
        yield pages
        pages.close()


def test_the_commands_of_the_tutorial_print_what_it_shows(pages: PageRunner) -> None:
    pages.run((ROOT / "docs" / "tutorial.md").read_text())


def test_the_commands_of_the_readme_print_what_it_shows(pages: PageRunner) -> None:
    page = (ROOT / "README.md").read_text()
    pages.run(page.partition("\n## A queue of your own in five minutes\n")[2].partition("\n### Without")[0])


def test_the_cluster_commands_of_the_readme_are_those_of_the_tutorial() -> None:
    """The tutorial is run on a cluster."""
    section = (ROOT / "README.md").read_text().partition("\n## On a cluster\n")[2].partition("\n## ")[0]
    tutorial = (ROOT / "docs" / "tutorial-cluster.md").read_text()
    commands = [command for block in blocks(section) for command, _ in block.commands]
    known = {command for block in blocks(tutorial) for command, _ in block.commands}
    assert commands
    assert [command for command in commands if command not in known] == []


def test_another_output_than_that_of_the_page_is_an_error(pages: PageRunner) -> None:
    with pytest.raises(AssertionError):
        pages.run("```console\n$ echo one two\none\n```\n")
    with pytest.raises(AssertionError):
        pages.run("```console\n$ false\n```\n")
    with pytest.raises(AssertionError):
        pages.run("```console\n$ echo one two\n...\ntwo\n```\n")


@pytest.mark.parametrize(
    ("shown", "is_the_output"),
    [
        ("a b c d", True),
        ("a ... d", True),
        ("... c d", True),
        ("a ...", True),
        ("a b ... c d", True),
        ("...", True),
        ("a c ...", False),
        ("... c", False),
        ("b ...", False),
        ("a ... d ... c", False),
        ("a b c", False),
        ("a . c d", False),
    ],
)
def test_three_dots_stand_for_any_number_of_lines(shown: str, is_the_output: bool) -> None:
    assert is_output(shown.split(), ["a", "b", "c", "d"]) is is_the_output


def test_each_command_of_the_pages_has_a_sample_of_its_output() -> None:
    """Except those that print nothing, and those of Docker, which print something else with each version."""
    pages = [(ROOT / name).read_text() for name in ("docs/tutorial.md", "docs/tutorial-cluster.md")]
    pages.append((ROOT / "README.md").read_text().partition("\n## On a cluster\n")[0])
    commands = [pair for page in pages for block in blocks(page) if not block.file for pair in block.commands]
    bare = [command for command, output in commands if output is None]
    assert [one for one in bare if not re.match("export |docker |for name in .* docker push", one)] == []


def test_blocks_are_files_and_commands_with_their_output() -> None:
    page = (
        "`a.py`, a file:\n\n```python\nx\n```\n\n```yaml\nno\n```\n\n"
        "```console\n$ one\n1\n2\n$ two \\\n more\n3\n```\n\n```sh\nthree \\\n four\n```\n"
    )
    file, console, sh = blocks(page)
    assert (file.file, file.text) == ("a.py", "x\n")
    assert list(console.commands) == [("one", "1\n2\n"), ("two   more", "3\n")]
    assert list(sh.commands) == [("three   four", None)]


def test_only_what_differs_between_runs_is_left_out(tmp_path: Path) -> None:
    text = f"14:05:02 words  main 3  oldest 3.4 s  {tmp_path}/worker.py:5  ann@lab\n\n  ── ──\n"
    assert normalized(text, tmp_path) == ["AT words main 3 oldest DURATION /srv/words/worker.py:5 USER"]
    assert normalized("fail  words-1.db90ceb5.1", tmp_path) == ["fail words-WORKER"]
    done = (
        'Last Started:   Sat Nov  1 14:04:02 2026\npod/checksums-worker-6c8f9d7b54-x2kqp   1s\nq "c" deleted'
    )
    assert normalized(done, tmp_path) == normalized(f"{done} from default namespace", tmp_path)
    assert normalized(done, tmp_path) == ["Last Started: AT", "pod/checksums-worker-POD AGE", 'q "c" deleted']


@pytest.mark.parametrize("name", ["6679747686-n6d29", "6c8f9d7b54-4567s", "59d8c7b5f4-2544h"])
def test_each_name_of_a_pod_is_left_out(name: str, tmp_path: Path) -> None:
    assert normalized(f"pod/checksums-worker-{name}", tmp_path) == ["pod/checksums-worker-POD"]
