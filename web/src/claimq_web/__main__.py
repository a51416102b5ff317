"""Runs the page of a cluster: `python -m claimq_web`."""

from __future__ import annotations

import sys

import click

from claimq_admin.errors import EXPECTED, exit_code_of, lines_of
from claimq_admin.escaping import safe
from claimq_web.in_cluster import serve


def main() -> None:
    """Runs the program. Every expected error is one line on stderr and an exit code (see `claimq_admin.errors`)."""
    try:
        serve()
    except EXPECTED as error:
        for line in lines_of(error):
            click.echo(f"claimq-web: {safe(line)}", err=True)
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
