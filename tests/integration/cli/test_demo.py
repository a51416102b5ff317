"""The demo on a small directory: its result, its errors, and that it leaves nothing behind."""

import re
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from testkit.programs.console import is_output
from testkit.programs.processes import Process
from testkit.repository.tree import ROOT
from testkit.waiting import eventually_sync

DEMO = ROOT / "examples" / "checksums" / "demo.py"


@pytest.fixture
def some_files(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    for number in range(300):
        (folder / f"file {number}").write_text("x" * number)
    return folder


def run(tmp_path: Path, *arguments: Path | str) -> Process:
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    return Process([sys.executable, DEMO, *arguments], log=tmp_path / "log", env={"TMPDIR": str(scratch)})


def without_figures(text: str) -> list[str]:
    """The lines without what differs between runs: numbers, units of durations and the directory."""
    text = re.sub(r"\d[\d,.]*( (ms|s|min)\b)?", "N", re.sub(r"below \S+", "below DIR", text))
    return [" ".join(line.split()) for line in text.splitlines()]


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "scratch").iterdir())


def test_every_file_is_accounted_for_though_an_app_a_sidecar_and_the_server_die(
    some_files: Path, tmp_path: Path
) -> None:
    process = run(tmp_path, some_files)
    code = process.wait()
    text = (tmp_path / "log").read_text()
    assert code == 0, text
    assert "All accounted for: no result is missing, invented or wrong." in text
    sample = (ROOT / "README.md").read_text().partition("```text\n  files ")[2].partition("```")[0]
    assert is_output(["...", *without_figures(f"files {sample}")], without_figures(text))
    for words in (
        "the app of checksums-",
        "the sidecar of checksums-",
        "the Valkey (pid",
        "a broken link: No such file",
    ):
        assert words in text
    assert left(tmp_path) == []


def test_the_web_page_of_the_demo_stays_open_until_a_signal(some_files: Path, tmp_path: Path) -> None:
    process = run(tmp_path, "--web", some_files)

    def text() -> str:
        assert process.is_running
        return (tmp_path / "log").read_text()

    eventually_sync(lambda: "the web page stays open until Ctrl-C" in text())
    (address,) = re.findall(r"web page: (http://\S+)", text())
    with urllib.request.urlopen(f"{address}queues/checksums/failed") as answer:
        assert b"No such file or directory" in answer.read()
    process.send(signal.SIGINT)
    assert process.wait() == 0
    assert "All accounted for: no result is missing" in (tmp_path / "log").read_text()
    assert left(tmp_path) == []


def test_an_interrupted_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    process = run(tmp_path)  # the whole standard library, whose files last until the signal
    eventually_sync(lambda: "workers ready" in (tmp_path / "log").read_text())
    process.send(signal.SIGINT)
    assert process.wait() == 130
    assert "interrupted; nothing is left behind" in (tmp_path / "log").read_text()
    assert left(tmp_path) == []


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    assert run(tmp_path, tmp_path / "nothing").wait() == 2
    assert "is not a directory; give one: make demo DIR=..." in (tmp_path / "log").read_text()
    assert left(tmp_path) == []
