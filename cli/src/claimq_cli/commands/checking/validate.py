"""`claimq validate`: checks a manifest without a cluster or a server."""

from __future__ import annotations

from pathlib import Path

import click

from claimq_cli.commands.checking.manifest_files import load_manifests
from claimq_cli.commands.options.context import output_option
from claimq_cli.output.answers import Answers


@click.command()
@click.argument("file", default="queue.yaml", type=click.Path(path_type=Path))
@click.option(
    "--local", is_flag=True, help="Check it for `claimq up`, which has no Secrets and starts no pods."
)
@output_option("table")
def validate(file: Path, local: bool, output: str) -> None:
    """Check the manifest FILE (default: queue.yaml; '-' is stdin).

    It applies the rules of the operator, or with --local those of `claimq up`. Prints every error with its field; the
    exit code is 5 then. What only a cluster knows, such as existing Secrets, is not checked.

    \b
    claimq validate
    claimq validate queue.yaml --local
    """
    manifests = load_manifests(file, local=local)
    names = [manifest.spec.queue_name for manifest in manifests]
    document = {"file": str(file), "queues": names}
    Answers(output).give(document, *(f"{file}: {name} is valid" for name in names))
