"""Clearing what an earlier `claimq up` left behind when it was killed: processes and sockets, and only its own."""

from __future__ import annotations

from claimq_cli.errors import LocalModeError
from claimq_cli.local.processes import process_table
from claimq_cli.local.processes.process_table import Identity
from claimq_cli.local.state_directory import RunState, StateDirectory


def clear(directory: StateDirectory) -> RunState | None:
    """Kills what is left of the last run here and removes its sockets; returns that run, None if it ended well.

    A process is killed if its id and start time are those written down, or if it carries that run's mark: never by
    name, and never one that merely got an old number.
    """
    state = directory.read()
    if state is None:
        return None
    if state.boot == process_table.boot_id():
        written = [Identity(one.pid, one.started) for one in state.processes]
        stayed = process_table.end_all(
            lambda: {
                *process_table.marked(state.mark),
                *(one for one in written if process_table.identify(one.pid) == one),
            }
        )
        if stayed:
            numbers = ", ".join(str(one.pid) for one in stayed)
            raise LocalModeError(
                f"processes of an earlier claimq up cannot be killed: {numbers}; end them first"
            )
    directory.forget_run(state)
    return state
