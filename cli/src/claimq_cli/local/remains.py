"""Clearing what an earlier `claimq up` left behind when it was killed: processes and sockets, and only its own."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable

from claimq_cli.failures import LocalModeError
from claimq_cli.local import proc
from claimq_cli.local.proc import Identity
from claimq_cli.local.state_directory import RunState, StateDirectory

LONGEST_WAIT = 10.0


def clear(directory: StateDirectory) -> RunState | None:
    """Kills what is left of the last run here and removes its sockets; returns that run, None if it ended well.

    A process is killed if its id and start time are those written down, or if it carries that run's mark: never by
    name, and never one that merely got an old number.
    """
    state = directory.read()
    if state is None:
        return None
    if state.boot == proc.boot_id():
        written = [Identity(one.pid, one.started) for one in state.processes]
        stayed = end_all(
            lambda: {*proc.marked(state.mark), *(one for one in written if proc.identify(one.pid) == one)}
        )
        if stayed:
            numbers = ", ".join(str(one.pid) for one in stayed)
            raise LocalModeError(
                f"processes of an earlier claimq up cannot be killed: {numbers}; end them first"
            )
    directory.forget_run(state)
    return state


def end_all(left: Callable[[], Iterable[Identity]]) -> list[Identity]:
    """SIGKILL to whatever ``left`` finds, until it finds nothing; those that are still there after some seconds."""
    deadline = time.monotonic() + LONGEST_WAIT
    while found := list(left()):
        if time.monotonic() > deadline:
            return found
        for one in found:
            proc.send(one, signal.SIGKILL)
        time.sleep(0.01)
    return []
