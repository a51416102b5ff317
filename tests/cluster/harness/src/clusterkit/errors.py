"""Errors of the harness; their messages say what to do."""

from collections.abc import Sequence


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
