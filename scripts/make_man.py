"""Writes the manual page of `claimq`, cli/man/claimq.1, from the help of its commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

import click
from command_line import commands_of, exit_codes, root  # type: ignore[import-not-found]  # a script beside this one

from claimq_cli.program import cli

FILE = Path(__file__).parent.parent / "cli/man/claimq.1"
ENVIRONMENT = {
    "CLAIMQ_REDIS_URL": "URL of the server, if neither --redis nor --data, --namespace or --context is given.",
    "KUBECONFIG": "Configuration of kubectl, which the commands run for --namespace and --context.",
}
_LITERAL = "\b\n"


def man_page() -> str:
    """The page in the language of man(7)."""
    program = root()
    lines = [
        ".TH CLAIMQ 1",
        ".SH NAME",
        r"claimq \- inspect, change and run reliable work queues on Redis and Valkey",
        ".SH SYNOPSIS",
        r".B claimq",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(cli.help or ""),
        ".PP",
        r"\fBkubectl claimq\fR has the same commands;",
        "it uses the ReliableQueues of kubectl's current namespace by default.",
        ".SH OPTIONS",
        *_options(program),
        ".SH COMMANDS",
    ]
    for context in commands_of(program):
        usage = " ".join(context.command.collect_usage_pieces(context))
        lines += [f".SS {_text(context.command_path)} {_text(usage)}"]
        lines += [*_paragraphs(context.command.help or ""), *_options(context)]
    lines += [".SH EXIT STATUS"]
    for code, meaning in exit_codes():
        lines += [".TP", f".B {code}", _text(meaning)]
    lines += [
        ".PP",
        r"\fBclaimq check\fR \fINAME\fR exits as a monitoring plugin does: see its help.",
        ".SH ENVIRONMENT",
    ]
    for name, meaning in ENVIRONMENT.items():
        lines += [".TP", f".B {name}", _text(meaning)]
    return "\n".join(lines) + "\n"


def _options(context: click.Context) -> Iterator[str]:
    """The options of a command. Those of `claimq` itself are in the section OPTIONS only."""
    own = {one.name for one in cli.params} if context.parent else set[str | None]()
    for one in context.command.get_params(context):
        is_listed = one.name not in own and not (context.parent and "--help" in one.opts)
        record = one.get_help_record(context) if is_listed and isinstance(one, click.Option) else None
        if record is not None:
            yield from (".TP", rf"\fB{_text(record[0])}\fR", _text(record[1]))


def _paragraphs(text: str) -> Iterator[str]:
    """The help of a command. Click keeps the lines of a paragraph after a ``\\b`` as they are."""
    for paragraph in re.split(r"\n\s*\n", cleandoc(text)):
        if paragraph.startswith(_LITERAL):
            yield from (".PP", ".nf", ".RS 4")
            yield from map(_text, paragraph.removeprefix(_LITERAL).splitlines())
            yield from (".RE", ".fi")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _text(text: str) -> str:
    """A text as it is: no character of it begins a request or an escape."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return r"\&" + escaped if escaped.startswith(".") else escaped


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(man_page())
