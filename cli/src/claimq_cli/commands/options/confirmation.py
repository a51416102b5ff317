"""Asks for confirmation before items are removed."""

from __future__ import annotations

import sys

import click

from claimq_admin.errors import USAGE, CommandError


def confirm(action: str, *, is_given: bool) -> None:
    """Asks on a terminal whether to do ``action``; elsewhere, CommandError unless ``--yes`` was given."""
    if is_given:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{action}; confirm it with --yes", USAGE)
    click.confirm(f"{action}; continue?", abort=True, err=True)
