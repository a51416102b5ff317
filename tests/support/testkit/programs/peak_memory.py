"""The most memory that a program of a test has, compared with its limit in the chart."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from testkit.repository.tree import ROOT
from testkit.waiting import PATIENCE


def limit_of_the_chart(component: str) -> int:
    """The limit of memory of `operator` or `web`, in bytes."""
    values: Any = yaml.safe_load((ROOT / "charts" / "claimq" / "values.yaml").read_text())
    text = str(values[component]["resources"]["limits"]["memory"])
    assert text.endswith("Mi")
    return int(text.removesuffix("Mi")) * 1024 * 1024


def largest_memory(pid: int) -> int:
    """The most memory that the process had so far, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


async def print_peak() -> None:
    """In the program: prints that it is ready, and when its input ends the most bytes of memory that it had."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(largest_memory(os.getpid()), flush=True)


async def peak_of(module: str, *urls: str, until: Callable[[], Awaitable[object]]) -> int:
    """In the test: the most bytes of memory of the program until a state is reached."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *urls,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert program.stdin is not None
        assert program.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert await program.stdout.readline() == b"ready\n"
            await until()
            program.stdin.close()
            return int(await program.stdout.readline())
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()
