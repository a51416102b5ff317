"""Errors of the command line: one line on stderr and an exit code.

==== =========================================================================================
code means
==== =========================================================================================
0    done
1    not done: no such item, local mode cannot continue, or `claimq doctor` has found a problem
2    the command line is wrong
3    the server cannot be reached now; try again later
4    refused by the server or a limit of the queue; it has to be changed first
5    the manifest has errors
130  interrupted (Ctrl-C)
==== =========================================================================================

`claimq check NAME` has the exit codes of monitoring plugins instead, see `claimq_cli.commands.monitoring`.
"""

from __future__ import annotations

from claimq.errors import ClaimqError, InvalidName, InvalidSpec, NotReplicated, StoreMisused, StoreUnavailable

NOT_DONE = 1
USAGE = 2
UNAVAILABLE = 3
REFUSED = 4
BAD_MANIFEST = 5
INTERRUPTED = 130

_START_IT = "- start the server and try again, or correct --redis or CLAIMQ_REDIS_URL"


class CommandError(Exception):
    """The command cannot be carried out. The message is one line with the fix."""

    def __init__(self, message: str, exit_code: int = NOT_DONE) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class LocalModeError(CommandError):
    """Local mode cannot start or continue."""


class ForeignQueue(StoreMisused):
    """The queue on the server does not belong to the ReliableQueue that names it."""


EXPECTED = (ClaimqError, CommandError, ValueError, TypeError, OSError)
"""The errors that end a command with one line and an exit code; any other is a defect and has a traceback."""


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


def text_of(error: Exception) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def lines_of(error: Exception) -> list[str]:
    """What to print on stderr: one line, or one per error of a manifest."""
    if isinstance(error, InvalidSpec):
        return [str(problem) for problem in error.problems]
    line = text_of(error)
    is_away = isinstance(error, StoreUnavailable) and not isinstance(error, NotReplicated)
    return [f"{line} {_START_IT}" if is_away else line]
