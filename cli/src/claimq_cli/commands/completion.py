"""`claimq completion`: prints the script with which a shell completes commands, options and names of queues."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

VARIABLE = "_CLAIMQ_COMPLETE"
"""The variable by which the script asks `claimq` for completions: the one that click reads for this name."""
_SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL. It completes commands, options and the names of queues.

    Names come from the server that the command would use: from `--redis` or `--data` if they precede the name, from
    CLAIMQ_REDIS_URL, or from a running `claimq up`. Without an answer within two seconds nothing is completed.

    \b
    source <(claimq completion bash)    # bash 4.4 or later: in ~/.bashrc
    source <(claimq completion zsh)     # zsh: in ~/.zshrc, after compinit
    claimq completion fish > ~/.config/fish/completions/claimq.fish
    """
    root = context.find_root()
    click.echo(_SHELLS[shell](root.command, {}, "claimq", VARIABLE).source())
