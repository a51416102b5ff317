"""Kills the programs of a `claimq worker` that has ended, however it ended.

Usage: python -m claimq_cli.item_programs.guard NAME=VALUE. The worker holds the other end of stdin. When the worker
ends, the kernel closes it, and every process that has this variable in its environment is killed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from types import TracebackType
from typing import Self

from claimq_local.processes import process_table

_LONGEST_WAIT = 15.0


class Guard:
    """The process that runs this module. ``mark`` is the variable of the programs, a name and a value. The name is
    unique to the worker, so that the programs of a nested `claimq worker` carry the marks of both workers."""

    def __init__(self) -> None:
        self.mark = (f"CLAIMQ_WORKER_RUN_{secrets.token_hex(8)}", "1")

    @property
    def variable(self) -> str:
        """The mark as ``NAME=VALUE``."""
        return "=".join(self.mark)

    async def __aenter__(self) -> Self:
        read_end, self._write_end = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", __spec__.name, self.variable),
                stdin=read_end,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,  # it survives signals of the terminal and of the worker's process group
            )
        except BaseException:
            os.close(self._write_end)
            raise
        finally:
            os.close(read_end)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kills what is left of the programs, and waits for that."""
        os.close(self._write_end)
        try:
            async with asyncio.timeout(_LONGEST_WAIT):
                await self._process.wait()
        except TimeoutError:
            return


def main() -> None:
    """Waits for the end of the worker, and kills the processes."""
    while os.read(0, 1):
        continue
    process_table.end_all(lambda: process_table.with_variable(sys.argv[1]))


if __name__ == "__main__":
    main()
