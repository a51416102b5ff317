"""The handler of `claimq worker`: runs the program on an item, and turns its exit code into a verdict."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from claimq import Fail, Item, Later, Requeue
from claimq_cli.item_programs.command_line import CommandLine, environment_for, too_long
from claimq_cli.item_programs.guard import Guard
from claimq_cli.item_programs.output import OutputPipe, Sink, Tail
from claimq_cli.item_programs.running_program import RunningProgram
from claimq_local.processes.child import how_it_ended
from claimq_process.duration import format_duration

LATER_SECONDS: Final = 60.0
"""The delay of items that a program postpones, unless another is given."""


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds: how long a program may run (None: no limit), how long it may take to end after SIGTERM, and the delay
    of items that it requeues (None: at once) or postpones (None: :data:`LATER_SECONDS`); and what these close."""

    timeout: float | None
    kill_after: float
    requeue_delay: float | None
    close: str | None = None


@dataclass(frozen=True, slots=True)
class ItemHandler:
    """Runs a program for each item of a queue; :meth:`run` is a handler of ``consume``."""

    queue: str
    command: CommandLine
    limits: Limits
    guard: Guard
    sinks: tuple[Sink, Sink]
    """For the programs' stdout and stderr."""
    outer: Mapping[str, str]
    """The environment that programs inherit."""

    async def run(self, item: Item) -> None:
        """Runs the program on an item. Returns if the item is done, else raises Fail or Requeue. A cancellation kills
        the process group."""
        tail = Tail()
        program = await self._started(item, tail)
        try:
            is_late = not await program.ends_within(self.limits.timeout)
            if is_late:
                await program.terminate(self.limits.kill_after)
        finally:  # also when the worker stops
            code = await program.finish()
        if is_late:
            raise Fail(
                f"ran longer than --timeout {format_duration(self.limits.timeout or 0)}", detail=tail.text
            )
        check_exit_code(code, tail, self.limits)

    async def _started(self, item: Item, tail: Tail) -> RunningProgram:
        arguments = self.command.arguments_for(item.payload)
        name, mark = self.guard.mark
        env = {**environment_for(self.outer, self.queue, item), name: mark}
        pipes = (OutputPipe(self.sinks[0], tail), OutputPipe(self.sinks[1], tail, is_stderr=True))
        try:
            stdin = self.command.stdin_for(item.payload)
            return await RunningProgram.start(arguments, stdin, env, self.guard.variable, pipes)
        except OSError as error:
            if error.errno == errno.E2BIG and self.command.placeholder is not None:
                raise too_long("the system refuses all arguments together") from error
            raise Fail(f"cannot start the program: {error.strerror}") from error


def check_exit_code(code: int, output: Tail, limits: Limits) -> None:
    """Returns for 0. Raises Requeue for 75, Later for 69, a permanent Fail for 65, and Fail for all others. Negative: a
    signal."""
    if code == os.EX_OK:
        return
    if code == os.EX_TEMPFAIL:
        raise Requeue(delay=limits.requeue_delay)
    if code == os.EX_UNAVAILABLE:
        delay = LATER_SECONDS if limits.requeue_delay is None else limits.requeue_delay
        raise Later(delay, close=limits.close)
    why = f": {output.error_line}" if output.error_line else ""
    raise Fail(f"the program {how_it_ended(code)}{why}", permanent=code == os.EX_DATAERR, detail=output.text)
