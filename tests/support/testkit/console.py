"""Runs the commands of a documentation page as they stand there, and compares what they print.

A page has fenced blocks. One of the kind `console` has commands after `$ `, each with its output; one without a command
has lines that the program in the first terminal prints. A block after a line that begins with the name of a file in
backticks and ends with a colon is that file. Instants, durations, ports and the like may differ.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from testkit.processes import Process
from testkit.waiting import PATIENCE, eventually_sync

HOME = "/srv/words"
"""The directory of the reader, in the pages."""
_BLOCK = re.compile(r"(?ms)^(?:`(?P<file>[^`\n]+)`[^\n]*:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$")
_FIRST_TERMINAL = re.compile(r"claimq up(?!.*--until-empty)")
_READS = re.compile(r"claimq (status|peek|items|failed (list|show)|audit|busy|why|workers)|grep |cat |sort ")
_VARIABLE = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d\b", "AT"),
    (r"\b\d+(\.\d+)? (ms|s|min|h)\b", "DURATION"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b[0-9a-f]{12}-\d+\b", "ID"),
    (r"-\d+\.[0-9a-f]{8}\.\d+", "-WORKER"),
    (r"\b[\w-]+@[\w.-]+", "USER"),
    (r"[ ─]+", " "),
)


@dataclass(frozen=True)
class Block:
    """A file to write, or commands with what they print."""

    file: str | None
    text: str
    is_console: bool

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command with its output; an empty command for the lines before the first one."""
        first, *others = re.split(r"(?m)^\$ ", self.text)
        if first:
            yield "", first
        for one in others:
            command, _, output = one.partition("\n")
            yield command, output


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return [
        Block(found["file"], found["text"], found["kind"] == "console")
        for found in _BLOCK.finditer(page)
        if found["file"] or found["kind"] == "console"
    ]


def shape(text: str, folder: Path) -> list[str]:
    """The lines of an output without what differs from run to run, and without empty lines."""
    text = text.replace(str(folder), HOME)
    for pattern, name in _VARIABLE:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


class Reader:
    """Reads a page: writes its files, and types its commands in a directory. ``log``: for the first terminal."""

    def __init__(self, folder: Path, log: Path) -> None:
        self._folder = folder
        self._log = log
        self._up: Process | None = None
        self.commands = 0

    def read(self, page: str) -> None:
        """Does what the page says. AssertionError if something else is printed."""
        for block in blocks(page):
            if block.file and not block.is_console:
                (self._folder / block.file).write_text(block.text)
                continue
            for command, output in block.commands:
                self._type(command, output)

    def close(self) -> None:
        """Ctrl-C in the first terminal."""
        if self._up is not None:
            self._up.terminate()

    def _type(self, command: str, output: str) -> None:
        self.commands += bool(command)
        if not command or _FIRST_TERMINAL.match(command):
            self._show_in_first_terminal(command, output)
        elif _READS.match(command):
            eventually_sync(lambda: self._prints(command, output), why=f"the output of `{command}`")
        else:
            assert self._prints(command, output)

    def _show_in_first_terminal(self, command: str, output: str) -> None:
        if command:
            words = ["bash", "-c", f"exec {command}"]
            self._up = Process(words, log=self._log, cwd=self._folder, env=self._env)
            eventually_sync(lambda: self._run("claimq url").returncode == 0, why="the first terminal")
        missing = shape(output, self._folder)

        def printed() -> bool:
            lines = shape(self._log.read_text(), self._folder)
            assert set(missing) <= set(lines), (missing, lines)
            return True

        eventually_sync(printed, why="lines of the first terminal")

    def _prints(self, command: str, output: str) -> bool:
        """Runs a command; AssertionError if it prints something else, or fails."""
        done = self._run(command)
        assert (shape(done.stdout, self._folder), done.returncode) == (shape(output, self._folder), 0), (
            done.stdout
        )
        return True

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env={**os.environ, **self._env}, timeout=PATIENCE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip

    @property
    def _env(self) -> dict[str, str]:
        return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
