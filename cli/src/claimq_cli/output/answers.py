"""Prints the result of a command: a table or lines for people, or a document for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import click
import yaml

from claimq_admin.escaping import safe_json
from claimq_cli.output import terminal

FORMS = ("table", "wide", "name", "json", "yaml", "ndjson")
"""The formats: tables and lines for people; the same with whole columns; only names, a line each; JSON; YAML; JSON with
each row on a line of its own."""
_DOCUMENTS = frozenset({"json", "yaml", "ndjson"})


class _Dumper(yaml.SafeDumper):
    """Quotes also the strings that YAML 1.2 and Kubernetes read as a number or a boolean: 08, 1e3, 0o14, y. Writes the
    words of an enumeration as strings, as JSON does."""


_OTHER_TYPE = re.compile(r"[yYnN]$|[-+]?(0o[0-7]+|(\.[0-9]+|[0-9][0-9_]*\.?[0-9_]*)([eE][-+]?[0-9]+)?)$")


def _string(_: yaml.SafeDumper, text: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:str", str(text), style="'" if _OTHER_TYPE.match(text) else None)


_Dumper.add_representer(str, _string)
_Dumper.add_multi_representer(StrEnum, _string)


class Answers:
    """Prints results in the requested format."""

    def __init__(self, form: str) -> None:
        self._form = form
        self.is_document = form in _DOCUMENTS
        """Whether the result is printed as a document."""
        self.is_names = form == "name"
        """Whether only names are printed."""

    def give(self, document: Any, *lines: str, each: str = "") -> None:
        """Prints the document, or the lines. ``each``: the field that has the rows, which are a line each in NDJSON."""
        match self._form:
            case "json":
                click.echo(safe_json(document))
            case "yaml":
                click.echo(yaml.dump(document, Dumper=_Dumper, sort_keys=False), nl=False)
            case "ndjson":
                for record in document[each] if each else [document]:
                    click.echo(json.dumps(record))
            case "name" if (names := _names(document)) is not None:
                terminal.say_lines(names)
            case _:
                terminal.say_lines(lines)

    def give_table(
        self,
        document: Any,
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        nothing: str = "nothing",
        each: str = "",
        notes: Sequence[str] = (),
        total: int = 0,
    ) -> None:
        """The document, or rows for people; for the columns see `terminal.say_table`, for ``each`` see :meth:`give`.
        ``notes``: lines after the rows. ``total``: how many rows there are, of which these are a part."""
        if self.is_names:
            terminal.say_lines([row[0].partition(" ")[0] for row in rows])  # no name has a blank
        elif self.is_document or not rows:
            self.give(document, nothing, each=each)
        else:
            is_cut = terminal.say_table(columns, rows, is_wide=self._form == "wide")
            more = [f"{len(rows):,} of {total:,}; --limit shows more"] if len(rows) < total else []
            more += ["-o wide shows the texts that end in …"] if is_cut else []
            terminal.say_lines([*more, *notes])


def _names(document: Any) -> list[str] | None:
    """The ids of the items that a command has enqueued or changed, or the name of its queue. None without these."""
    for field in ("ids", "changed"):
        if field in document:
            return list(document[field])
    return [document["queue"]] if document.get("queue") else None
