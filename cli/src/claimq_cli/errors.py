"""What the command line ends with when something does not work: one line on stderr, and an exit code.

==== =========================================================================================
code means
==== =========================================================================================
0    done
1    not done: no such item, or local mode could not go on
2    the command line is wrong
3    the server cannot be reached now; try again later
4    the server, or a limit of the queue, refuses; somebody has to change something
5    the manifest has mistakes
130  interrupted (Ctrl-C)
==== =========================================================================================
"""

from __future__ import annotations

from claimq.errors import ClaimqError, InvalidName, InvalidSpec, NotReplicated, StoreUnavailable

NOT_DONE = 1
USAGE = 2
UNAVAILABLE = 3
REFUSED = 4
BAD_MANIFEST = 5
INTERRUPTED = 130

_START_IT = "- start the server and try again, or correct --redis or CLAIMQ_REDIS_URL"


class CommandError(Exception):
    """The command cannot do what it was asked; the message is one line that says what to do."""

    def __init__(self, message: str, exit_code: int = NOT_DONE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class LocalModeError(CommandError):
    """Local mode cannot start or go on."""


def exit_code_of(error: Exception) -> int:
    """The exit code for an error of the library or of this command."""
    match error:
        case CommandError():
            return error.exit_code
        case InvalidSpec():
            return BAD_MANIFEST
        case StoreUnavailable():
            return UNAVAILABLE
        case InvalidName():
            return USAGE
        case ClaimqError():
            return REFUSED
        case ValueError() | TypeError():
            return USAGE
        case _:
            return NOT_DONE


def lines_of(error: Exception) -> list[str]:
    """What to print on stderr: one line, or for a manifest one for each mistake."""
    if isinstance(error, InvalidSpec):
        return [str(problem) for problem in error.problems]
    line = " ".join(str(error).split()) or type(error).__name__
    is_away = isinstance(error, StoreUnavailable) and not isinstance(error, NotReplicated)
    return [f"{line} {_START_IT}" if is_away else line]
