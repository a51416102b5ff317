"""What to write instead of a command that is one text. Pure."""

from __future__ import annotations

import json
import re
import shlex

_LONGEST_ADVICE = 200
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_EXPANDED = re.compile(r"(?<!\\)[$`]")
_SHELL_SYNTAX = re.compile(r"[|&;<>()$`*?\n]|^[A-Za-z_][A-Za-z0-9_]*=|(?:^|\s)~")
"""What only a shell understands, outside of quotes: operators, variables, patterns, an assignment at the beginning."""


def needs_shell(text: str) -> bool:
    """Whether the text of a command has shell syntax, so that its words alone cannot be started."""
    return bool(_SHELL_SYNTAX.search(_QUOTED.sub(_outside, text.strip())))


def command_for(text: str) -> str:
    """A command that starts what the text means, as a JSON list: its words, or a shell with the text."""
    text = text.strip()
    if needs_shell(text):
        return _written(["sh", "-c", text], 'a list of "sh", "-c" and the text')
    return _written(words_of(text), "a list of its words")


def arguments_for(text: str) -> str:
    """The words of a text as a JSON list."""
    return _written(words_of(text), "a list of its words")


def words_of(text: str) -> list[str]:
    """The words of a text, split as a shell splits them."""
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed
        return text.split()


def _outside(quoted: re.Match[str]) -> str:
    """What a shell reads in a quoted text: nothing, or a variable in double quotes."""
    return "$" if quoted[0].startswith('"') and _EXPANDED.search(quoted[0]) else ""


def _written(words: list[str], otherwise: str) -> str:
    written = json.dumps(words, ensure_ascii=False)
    return written if len(written) <= _LONGEST_ADVICE else otherwise
