"""Prints to the terminal, and escapes foreign text: ids, clients, errors, payloads, workers' logs, names.

No item can move the cursor, set the title, fill the clipboard or change the text direction.
"""

from __future__ import annotations

import codecs
import io
import json
import shutil
import sys
from collections.abc import Sequence

import click
from rich.cells import cell_len, set_cell_size

from claimq_admin.escaping import safe

GAP = "  "
"""Between the columns of a table."""
_LEAST_FLEXIBLE = 12
_PLAIN = {"─": "-", "…": "~", "–": "-", "×": "x"}
"""What stands for a letter of ours where the output has no such letter."""


def print_what_the_encoding_lacks() -> None:
    """Prints letters that the encoding of stdout or stderr lacks as JSON escapes: no output ends in the middle."""
    codecs.register_error("claimq", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="claimq")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or json.dumps(letter)[1:-1] for letter in letters), error.end


def say(text: str) -> None:
    """Prints a line on stdout, escaped."""
    click.echo(safe(text))


def say_lines(lines: Sequence[str]) -> None:
    """Prints lines on stdout, escaped."""
    for line in lines:
        say(line)


def say_error(text: str) -> None:
    """Prints a line on stderr, after the name of the command."""
    click.echo(f"claimq: {safe(text)}", err=True)


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, is_wide: bool = False) -> bool:
    """Prints a table that fits the terminal; in a pipe, and with ``is_wide``, it has its natural width. Returns whether
    a text was cut.

    Columns whose names begin with '>' are right-aligned. Only those that begin with '~' may be cut, with a '…'. If the
    table is still too wide, each row is printed as a block of lines.
    """
    names = [name.lstrip(">~") for name in columns]
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = column_widths(columns, cells, None if is_wide else _terminal_width())
    if widths is None:
        _say_blocks(names, cells)
        return False
    to_right = [name.startswith(">") for name in columns]
    click.secho(_line(names, widths, to_right), bold=True)
    click.echo(GAP.join("─" * width for width in widths))
    for row in cells:
        click.echo(_line(row, widths, to_right))
    return any(cell_len(cell) > width for row in cells for cell, width in zip(row, widths, strict=True))


def _terminal_width() -> int | None:
    """Width of the terminal in columns; None in a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def column_widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], room: int | None
) -> list[int] | None:
    """Widths of the columns of :func:`say_table` so that they fit into ``room``; None if they cannot fit.

    The widest of the columns that may be cut is reduced.
    """
    may_be_cut = ["~" in name for name in columns]
    names = [name.lstrip(">~") for name in columns]
    widths = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    while room is not None and sum(widths) + len(GAP) * (len(widths) - 1) > room:
        cut = [n for n, may in enumerate(may_be_cut) if may and widths[n] > _LEAST_FLEXIBLE]
        if not cut:
            return None
        widths[max(cut, key=lambda n: widths[n])] -= 1
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool]) -> str:
    placed = [_placed(*cell) for cell in zip(cells, widths, to_right, strict=True)]
    return GAP.join(placed).rstrip()


def _placed(cell: str, width: int, to_right: bool) -> str:
    if cell_len(cell) > width:
        return set_cell_size(cell, width - 1) + "…"
    blanks = " " * (width - cell_len(cell))
    return blanks + cell if to_right else cell + blanks


def _say_blocks(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    longest = max(map(len, names)) + 1
    for number, row in enumerate(rows):
        if number:
            click.echo()
        for name, cell in zip(names, row, strict=True):
            click.echo(f"{name + ':':<{longest}} {cell}")
