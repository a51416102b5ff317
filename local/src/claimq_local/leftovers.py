"""Removes the processes and sockets that a killed `claimq up` left behind."""

from __future__ import annotations

from claimq_admin.errors import LocalModeError
from claimq_local.processes import process_table
from claimq_local.processes.process_table import Identity
from claimq_local.state_directory import RunState, StateDirectory


def clear(directory: StateDirectory) -> RunState | None:
    """Kills the processes of the last run and removes its sockets; returns that run, None if it ended normally.

    A process is killed if its id and start time are recorded, or if it carries the mark of that run. It is never
    selected by name, and a process that only reuses a recorded id is left alone.
    """
    state = directory.read()
    if state is None:
        return None
    if state.boot == process_table.boot_id():
        written = [Identity(process.pid, process.started) for process in state.processes]
        stayed = process_table.end_all(
            lambda: {
                *process_table.marked(state.mark),
                *(identity for identity in written if process_table.identify(identity.pid) == identity),
            }
        )
        if stayed:
            numbers = ", ".join(str(identity.pid) for identity in stayed)
            raise LocalModeError(f"cannot kill processes of an earlier claimq up: {numbers}; stop them first")
    directory.forget_run(state)
    return state
