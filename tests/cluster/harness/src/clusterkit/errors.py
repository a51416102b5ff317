"""Errors of the harness; their messages say what to do."""

import re
from collections.abc import Sequence

_PASSING = re.compile(
    r"connection refused|connection reset|the connection to the server .* was refused|TLS handshake timeout"
    r"|unexpected EOF|i/o timeout|http2: |etcdserver: |the object has been modified|container not found"
    r"|net/http: request canceled|context deadline exceeded|Unable to connect to the server|too many requests",
    re.IGNORECASE,
)
_PASSING_STATUSES = {429, 500, 502, 503, 504}


class HarnessError(Exception):
    """The cluster can't be brought up, used or taken down; the message says what to do."""


class CommandFailed(HarnessError):
    """A program ended with a failure; `status` is its exit status, `output` what it printed on both channels."""

    def __init__(self, argv: Sequence[str], status: int, output: str) -> None:
        self.status = status
        self.output = output
        super().__init__(f"{' '.join(argv)}\nended with status {status}:\n{output.strip()[-4000:]}")


class ApiError(HarnessError):
    """The API server answered with an error; `status` is the HTTP status, `body` its text."""

    def __init__(self, method: str, path: str, status: int, body: str) -> None:
        self.status = status
        self.body = body
        super().__init__(f"{method} {path} was answered with {status}: {body.strip()[:2000]}")


def is_passing(error: HarnessError) -> bool:
    """Whether the same request may succeed a moment later: the API server, etcd or a kubelet did not answer in time, or
    another client changed the object at the same moment."""
    if isinstance(error, ApiError):
        return error.status in _PASSING_STATUSES
    return isinstance(error, CommandFailed) and _PASSING.search(error.output) is not None
