"""Runs the commands of a documentation page as they stand there, and compares what they print.

A page has fenced blocks. One of the kind `console` has commands after `$ `, each with its output; one without a command
has lines that the program in the first terminal prints. One of the kind `sh` has commands without output. A command
continues after a backslash at the end of its line. A block after a line that begins with the name of a file in
backticks and ends with a colon is that file. Instants, durations, ports and the like may differ, and a line `...` of an
output stands for any number of lines.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from testkit.programs.processes import Process
from testkit.waiting import PATIENCE, eventually_sync

HOME = "/srv/words"
"""The directory of the reader, in the pages."""
_BLOCK = re.compile(r"(?ms)^(?:`(?P<file>[^`\n]+)`[^\n]*:\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$")
_FIRST_TERMINAL = re.compile(r"claimq up(?!.*--until-empty)")
_READS = re.compile(
    r"claimq (-n \w+ )?(status|peek|items|failed (list|show)|audit|busy|why|workers)"
    r"|kubectl (get|describe|logs|wait) |grep |cat |sort "
)
"""Commands that are repeated until they print what the page shows."""
_LEFT_OUT = "..."
_VARIABLE = (
    # Before numbers: one name of a hundred has nothing but digits between its hyphens.
    (r"-[b-df-hj-np-tv-z2-9]{6,10}-[b-df-hj-np-tv-z2-9]{5}\b", "-POD"),
    (r"\b[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\b", "AT"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)|\b\d\d:\d\d:\d\d\b", "AT"),
    (r"\b\d+(\.\d+)? (ms|s|min|h)\b", "DURATION"),
    (r"\b\d+[smh](\d+s)?\b", "AGE"),
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b[0-9a-f]{12}-\d+\b", "ID"),
    (r"-\d+\.[0-9a-f]{8}\.\d+", "-WORKER"),
    (r"\b[\w-]+@[\w.-]+", "USER"),
    # Before 1.34 kubectl does not print the namespace.
    (r"(?m) deleted from \S+ namespace$", " deleted"),
    (r"[ ─]+", " "),
)


@dataclass(frozen=True)
class Block:
    """A file to write, or commands. ``kind``: what follows the fence."""

    file: str | None
    kind: str
    text: str

    @property
    def commands(self) -> Iterator[tuple[str, str | None]]:
        """Each command with its output, which is None in blocks of the kind `sh`: they do not show any. An empty
        command for the lines before the first one."""
        text = self.text.replace("\\\n", " ")
        if self.kind == "sh":
            yield from ((line, None) for line in text.splitlines() if line)
            return
        first, *others = re.split(r"(?m)^\$ ", text)
        if first:
            yield "", first
        for one in others:
            command, _, output = one.partition("\n")
            yield command, output


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order: files, and commands."""
    found = [
        Block(None if one["kind"] == "console" else one["file"], one["kind"], one["text"])
        for one in _BLOCK.finditer(page)
    ]
    return [one for one in found if one.file or one.kind in {"console", "sh"}]


def normalized(text: str, folder: Path) -> list[str]:
    """The lines of an output without what differs from run to run, and without empty lines."""
    text = text.replace(str(folder), HOME)
    for pattern, name in _VARIABLE:
        text = re.sub(pattern, name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_output(shown: list[str], printed: list[str]) -> bool:
    """Whether normalized lines are those that a page shows, where a line `...` stands for any number of them."""
    parts = (r"(?:.*\n)*?" if line == _LEFT_OUT else re.escape(f"{line}\n") for line in shown)
    return re.fullmatch("".join(parts), "".join(f"{line}\n" for line in printed)) is not None


Shell = Callable[[str], tuple[int, str]]
"""Runs a command, and returns its exit code and what it printed on stdout and stderr."""


def shell_in(folder: Path, *prefix: str, env: Mapping[str, str] | None = None) -> Shell:
    """A function that runs a command in a directory. ``prefix``: words before each command, ``env``: variables beside
    those of this process."""
    outer = {**os.environ, **(env or {})}
    env = {**outer, "PATH": _path(outer["PATH"])}

    def run(command: str) -> tuple[int, str]:
        done = subprocess.run(
            [*prefix, "bash", "-c", command], cwd=folder, env=env, timeout=2 * PATIENCE, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    return run


def _path(path: str) -> str:
    """With the `claimq` of this Python first."""
    return f"{Path(sys.executable).parent}{os.pathsep}{path}"


class PageRunner:
    """Does what a page says: writes its files to a directory, and runs its commands. ``log``: of the first terminal."""

    def __init__(self, folder: Path, shell: Shell, log: Path) -> None:
        self._folder = folder
        self._shell = shell
        self._log = log
        self._up: Process | None = None
        self._exports: list[str] = []

    def run(self, page: str, *, skip: str | None = None) -> None:
        """Runs a page, without the commands that match ``skip`` at their beginning.

        A line `export ...` is repeated before each later command. AssertionError if something else is printed, or a
        command fails.
        """
        for block in blocks(page):
            if block.file:
                (self._folder / block.file).write_text(block.text)
                continue
            for command, output in block.commands:
                if skip is None or not re.match(skip, command):
                    self._run_command(command, output)

    def close(self) -> None:
        """Stops the program in the first terminal (SIGTERM)."""
        if self._up is not None:
            self._up.terminate()

    def _run_command(self, command: str, output: str | None) -> None:
        if command.startswith("export "):
            self._exports.append(command)
        elif not command or _FIRST_TERMINAL.match(command):
            self._show_in_first_terminal(command, output or "")
        elif _READS.match(command):
            eventually_sync(lambda: self._prints(command, output), why=f"the output of `{command}`")
        else:
            assert self._prints(command, output)

    def _show_in_first_terminal(self, command: str, output: str) -> None:
        if command:
            self.close()
            words = ["bash", "-c", f"exec {command}"]
            self._up = Process(
                words, log=self._log, cwd=self._folder, env={"PATH": _path(os.environ["PATH"])}
            )
            eventually_sync(
                lambda: self._shell("claimq url")[0] == 0, why="the first terminal", needs=[self._up]
            )
        expected = set(normalized(output, self._folder))

        def printed() -> bool:
            lines = normalized(self._log.read_text(), self._folder)
            assert expected <= set(lines), (expected, lines)
            return True

        needs = [self._up] if self._up else []
        eventually_sync(printed, why="lines of the first terminal", needs=needs)

    def _prints(self, command: str, output: str | None) -> bool:
        """Runs a command; AssertionError if it prints something else, or fails."""
        code, printed = self._shell("\n".join([*self._exports, command]))
        assert code == 0, f"{command}: exit code {code}: {printed}"
        if output is not None:
            shown = normalized(output, self._folder)
            assert is_output(shown, normalized(printed, self._folder)), f"{command}: {printed}"
        return True
