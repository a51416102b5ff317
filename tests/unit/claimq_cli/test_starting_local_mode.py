"""A command that follows `claimq up` at once waits until local mode serves its queues."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from claimq_admin.server_choice import Chosen
from claimq_cli.commands.options.context import Context
from claimq_cli.output.answers import Answers
from claimq_local import discovery
from claimq_local.state_directory import StateDirectory


@pytest.fixture
def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateDirectory]:
    """A local mode that has its lock, and no queues yet."""
    monkeypatch.delenv("CLAIMQ_REDIS_URL", raising=False)
    monkeypatch.delenv("CLAIMQ_REDIS_URL_FILE", raising=False)
    directory = StateDirectory(tmp_path / "other/.claimq")
    directory.hold()
    yield directory
    directory.release()


async def test_a_command_waits_for_the_own_local_mode_that_has_no_lock_yet(
    starting: StateDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one, of another project, is running."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    starting.state_file.write_text(json.dumps({"queues": {"other": "redis://127.0.0.1:6/0"}}))
    discovery.announce(starting)
    command = asyncio.create_task(Context(None, None, Answers("table")).servers("q"))
    await asyncio.sleep(0)
    assert not command.done()
    own = StateDirectory(tmp_path / "here/.claimq")
    own.hold()
    own.state_file.write_text(json.dumps({"queues": {"q": "redis://127.0.0.1:7/0"}}))
    (chosen,) = await command
    assert chosen.settings.url == "redis://127.0.0.1:7/0"
    own.release()


async def test_a_command_waits_for_a_local_mode_that_is_starting(starting: StateDirectory) -> None:
    command = asyncio.create_task(Context(None, starting.path, Answers("table")).servers("q"))
    await asyncio.wait({command}, timeout=0)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not command.done()
    starting.state_file.write_text(json.dumps({"queues": {"q": "redis://127.0.0.1:7/0"}}))
    (chosen,) = await command
    assert isinstance(chosen, Chosen)
    assert chosen.queues == {"q": "q"}
