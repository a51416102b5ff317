"""A program that works on one item, with the processes that it has started."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from claimq_cli.item_programs.output import OutputPipe
from claimq_local.processes import die_with_parent, process_table
from claimq_local.processes.process_table import Identity

_POLL_SECONDS = 0.05
_OUTPUT_SECONDS = 1.0
"""How long output is awaited from a process that has left the program's process group."""


class RunningProgram:
    """A process group whose leader is the program. The kernel kills the program when this process dies."""

    def __init__(
        self, process: asyncio.subprocess.Process, variable: str, pipes: Sequence[OutputPipe]
    ) -> None:
        self._process = process
        self._variable = variable
        self._ended = asyncio.ensure_future(process.wait())
        self._relays = [asyncio.ensure_future(pipe.relay()) for pipe in pipes]

    @classmethod
    async def start(
        cls,
        arguments: Sequence[bytes],
        stdin: bytes,
        env: Mapping[str, str],
        variable: str,
        pipes: tuple[OutputPipe, OutputPipe],
    ) -> RunningProgram:
        """Starts it. ``variable``: a ``NAME=VALUE`` of ``env`` that no process of another worker has; ``pipes``: for
        stdout and stderr. Raises OSError."""
        try:
            with os.fdopen(os.memfd_create("claimq-item"), "wb") as payload:
                payload.write(stdin)
                payload.seek(0)
                process = await asyncio.create_subprocess_exec(
                    *map(os.fsencode, die_with_parent.wrapper()),
                    *arguments,
                    stdin=payload,
                    stdout=pipes[0].write_end,
                    stderr=pipes[1].write_end,
                    env=env,
                    start_new_session=True,
                )
        except BaseException:
            for pipe in pipes:
                pipe.close()
            raise
        return cls(process, variable, pipes)

    async def ends_within(self, seconds: float | None) -> bool:
        """Waits for the end of the program, at most ``seconds``; returns whether it has ended."""
        done, _ = await asyncio.wait({self._ended}, timeout=seconds)
        return bool(done)

    async def terminate(self, grace: float) -> None:
        """Sends SIGTERM to the process group, and waits until all of it has ended, at most ``grace`` seconds."""
        timeout_at = asyncio.get_running_loop().time() + grace
        self._send(signal.SIGTERM)
        while (  # noqa: ASYNC110 - no event reports the end of a process group
            self._has_group() and asyncio.get_running_loop().time() < timeout_at
        ):
            await asyncio.sleep(_POLL_SECONDS)

    async def finish(self) -> int:
        """Kills what is left of the process group, and waits for its output. Returns the exit code of the program;
        negative: the signal that ended it."""
        self._send(signal.SIGKILL)
        code = await asyncio.shield(self._ended)
        if self._has_group():
            await asyncio.to_thread(process_table.end_all, self._rest_of_group)
        await asyncio.wait(self._relays, timeout=_OUTPUT_SECONDS)
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)
        return code

    def _send(self, number: signal.Signals) -> None:
        """Sends a signal to the process group unless the program has ended: then another group may have its id."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _has_group(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _rest_of_group(self) -> list[Identity]:
        return process_table.members_of(self._process.pid, self._variable)
