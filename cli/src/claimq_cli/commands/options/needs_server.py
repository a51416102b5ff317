"""What to do instead of the commands that --web-api does not have."""

from __future__ import annotations

from claimq_admin.errors import USAGE, CommandError

_INSTEAD = {
    "check": "give NAME; what is unsafe about the server is in the condition RedisReachable of a ReliableQueue",
    "delete": "delete its ReliableQueue instead: kubectl delete reliablequeue NAME",
    "doctor": "omit --web-api, and give -n NAMESPACE: it checks what you may read with kubectl",
    "export": "omit --remove; `claimq failed remove` takes the ids of exported items",
    "import": "use `claimq enqueue --lines`, or run it where the server can be reached",
    "url": "a page does not show the URLs of its servers",
    "web": "open the address of the page in a browser",
    "worker": "run it where the server can be reached, or give a ReliableQueue workers",
}


def needs_server(command: str) -> CommandError:
    """The error of a command that was given --web-api and cannot use it."""
    instead = _INSTEAD.get(command)
    hint = f"; {instead}" if instead else ""
    return CommandError(
        f"this command connects to the server of the queue, and not through a web page (--web-api){hint}",
        USAGE,
    )
