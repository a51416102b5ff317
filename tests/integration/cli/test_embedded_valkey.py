"""The server of `claimq up` and its restarts."""

import asyncio
import errno
import signal
import tempfile
from pathlib import Path
from typing import NoReturn

import pytest

from claimq_local.embedded_valkey import EmbeddedValkey
from claimq_local.processes.child import Child
from claimq_local.state_directory import StateDirectory
from testkit.waiting import PATIENCE


class Context:
    """What the server needs from local mode."""

    mark = "a-mark-of-this-test"

    def __init__(self, path: Path) -> None:
        self.directory = StateDirectory(path)
        self.directory.logs.mkdir(parents=True)
        self.directory.valkey.mkdir()
        self.has_new_server = asyncio.Event()

    def note(self, text: str, *, is_trouble: bool = False) -> None:
        """Takes a line."""

    def save(self) -> None:
        """Is called once a server has started."""
        self.has_new_server.set()


async def test_a_server_that_could_not_be_started_again_is_started_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail_once(*_arguments: object, **_options: object) -> NoReturn:
        monkeypatch.undo()
        raise OSError(errno.EAGAIN, "no more processes")

    context = Context(tmp_path)
    valkey = EmbeddedValkey(context)
    with tempfile.TemporaryDirectory(prefix="claimq-test-") as sockets:
        await valkey.start(Path(sockets))
        try:
            first = valkey.child
            assert first is not None
            context.has_new_server.clear()
            monkeypatch.setattr(Child, "start", fail_once)
            first.send(signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                await context.has_new_server.wait()
            assert valkey.child is not first
        finally:
            await valkey.stop()
