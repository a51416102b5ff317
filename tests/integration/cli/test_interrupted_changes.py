"""Changes of a whole queue that a signal ends: one line says what is done and what is not."""

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from testkit.faults.hostile_server import NOW, STALLED, Answer, hostile_server, snapshot_reply
from testkit.programs.processes import Process
from testkit.waiting import eventually

CHANGES = [
    (["flush", "q", "--yes"], "flush", "7 items of q left; repeat the command to remove them"),
    (["flush", "q", "--client", "a", "--yes"], "flush_client", "5 items of a left; repeat the command to remove them"),
    (["delete", "q", "--yes"], "delete", "q is not deleted and has 7 items; repeat the command"),
    (["policy", "q", "requeue_limit=9"], "configure", "the policy of q is not changed; repeat the command"),
    (["pause", "q"], "pause", "q is not paused"),
    (["resume", "q"], "pause", "q is not paused"),
    (["release", "q", "w"], "release_worker", "w holds 2 items, the others are given back; repeat the command"),
]  # fmt: skip


class Server:
    """A queue with 7 items. The scripts that change it remove no item and ask for another step, or do not answer."""

    def __init__(self, script: str) -> None:
        self.calls = 0
        self.fields: list[Any] = []
        """Of the policy."""
        self.answers: dict[str, Answer] = {
            script: self._change,
            "lengths": lambda _: [4, 2, 0, 1],
            "snapshot": lambda _: snapshot_reply(main=4, busy=2, failed=1),
            "workers": lambda _: ["w", str(NOW), 2],
            "held": lambda _: ["0", "w/1.abcdefgh"],
            "EXISTS": lambda _: 1,
            "HGETALL": lambda _: self.fields,
            "clients": lambda _: [0, "a", 5],
        }
        self._is_stepwise = script in ("flush", "delete")

    def _change(self, _: list[bytes]) -> Any:
        self.calls += 1
        return ["OK", "0 0 0 0 1"] if self._is_stepwise else STALLED


async def interrupted(words: list[str], server: Server, number: signal.Signals, log: Path) -> str:
    """What the command prints at a signal while it changes the queue."""
    async with hostile_server(server.answers) as url:
        process = Process([sys.executable, "-m", "claimq_cli", *words, "--redis", url], log=log)
        await eventually(lambda: server.calls > 0 or not process.is_running)
        process.send(number)
        assert await asyncio.to_thread(process.wait) == 130
    return log.read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("words", "script", "text"), CHANGES, ids=[words[0] for words, _, _ in CHANGES])
async def test_a_change_that_a_signal_ends_says_what_is_left(
    words: list[str], script: str, text: str, number: signal.Signals, tmp_path: Path
) -> None:
    printed = await interrupted(words, Server(script), number, tmp_path / "log")
    assert printed == f"claimq: interrupted: {text}\n"


async def test_a_change_that_was_made_before_the_signal_is_reported_as_made(tmp_path: Path) -> None:
    server = Server("configure")

    def made(_: list[bytes]) -> Any:
        server.calls += 1
        server.fields = ["requeue_limit", "9"]
        return STALLED

    server.answers["configure"] = made
    printed = await interrupted(["policy", "q", "requeue_limit=9"], server, signal.SIGTERM, tmp_path / "log")
    assert printed == "claimq: interrupted: the policy of q has the changes\n"


async def test_an_interrupted_change_of_a_silent_server_says_that_the_state_is_unknown(
    tmp_path: Path,
) -> None:
    server = Server("flush")
    server.answers |= {"flush": server._change, "lengths": lambda _: STALLED}
    printed = await interrupted(["flush", "q", "--yes"], server, signal.SIGINT, tmp_path / "log")
    assert printed == (
        "claimq: interrupted: the server does not respond, so the change may be made, made in part or not made\n"
    )
