"""The help of each command has an example of it, and the command line of each example is one that it accepts."""

import itertools
import re
import shlex
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
import pytest

from claimq_cli.program import cli


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands that can be run, with the words that name them."""
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        words = (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, words)
        else:
            yield " ".join(words), command


def examples(command: click.Command) -> Iterator[list[str]]:
    """The words after `claimq` of each example in the help: of the lines after a ``\\b``, which click keeps."""
    for block in re.findall(r"(?ms)^\x08\n(.*?)(?:\n\n|\Z)", cleandoc(command.help or "")):
        for line in block.splitlines():
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split = True
            for is_command, some in itertools.groupby(words, lambda word: not set(word) <= set("|&;<>()")):
                one = list(some)
                if is_command and "claimq" in one:
                    yield one[one.index("claimq") + 1 :]


def parsed(words: list[str]) -> str:
    """Parses a command line without running it. Returns the words that name the command."""
    while words[0].startswith("-"):  # an option before the command, with its value
        words = words[2:]
    path: list[str] = []
    command: click.Command = cli
    while isinstance(command, click.Group):
        path.append(words[0])
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    command.make_context(path[-1], words)
    return " ".join(path)


@pytest.mark.parametrize(("path", "command"), [pytest.param(*one, id=one[0]) for one in commands(cli)])
def test_the_help_of_each_command_has_examples_that_it_accepts(
    path: str, command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("worker.py", "arrivals.csv", "trace.csv"):  # files that examples name, and that must exist
        (tmp_path / name).touch()
    (tmp_path / "lib").mkdir()
    monkeypatch.chdir(tmp_path)
    assert path in [parsed(words) for words in examples(command)]
