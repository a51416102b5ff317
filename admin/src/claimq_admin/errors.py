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
6    the queue is full: nothing is stored of what was to be added last; try again later
130  interrupted (Ctrl-C)
==== =========================================================================================

`claimq check` has the exit codes of monitoring plugins instead, see `claimq_cli.commands.checking.monitoring`.
"""

from __future__ import annotations

from claimq.errors import (
    ClaimqError,
    InvalidName,
    InvalidSpec,
    NotReplicated,
    QueueFull,
    SearchEnded,
    StoreMisused,
    StoreUnavailable,
)
from claimq.redis_store.causes import CLOSED

NOT_DONE = 1
USAGE = 2
UNAVAILABLE = 3
REFUSED = 4
BAD_MANIFEST = 5
FULL = 6
INTERRUPTED = 130

_NO_ANSWER = "no answer from the server"
_ADDRESS = "correct --redis or CLAIMQ_REDIS_URL"
_CLOSED = "if the server runs, a proxy or a port with TLS may be at this address, or it is at its maxclients"
_NO_START = {
    CLOSED: _CLOSED,
    "Connection reset by peer": _CLOSED,
    "Broken pipe": _CLOSED,
    "timed out": "if the server runs, it is busy, a firewall drops the packets, or its port is without TLS (then use "
    "redis://, not rediss://)",
    "TLS": "the port may be without TLS (then use redis://), or the certificates may be wrong",
    "cannot be resolved": "the name of the host may be wrong",
}
"""Part of the cause of a call without an answer -> what it can mean other than that the server does not run."""


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
        case QueueFull():
            return FULL
        case InvalidName():
            return USAGE
        case ClaimqError() if not isinstance(error, SearchEnded):
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
    advice = advice_for(error)
    return [f"{line} - {advice}" if advice else line]


def advice_for(error: Exception) -> str:
    """What to do if a call got no answer, by the cause that the message names. Empty for all other errors, whose
    messages have their advice."""
    line = text_of(error)
    if not isinstance(error, StoreUnavailable) or isinstance(error, NotReplicated) or _NO_ANSWER not in line:
        return ""
    for cause, advice in _NO_START.items():
        if cause in line:
            return f"{advice}; otherwise start it and try again, or {_ADDRESS}"
    return f"start the server and try again, or {_ADDRESS}"
