"""`claimq completion`: scripts for shells, and names of queues from the server."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from claimq_cli.commands.options.queue_argument import known_queues
from testkit.plugin import Claimq, QueueDo
from testkit.programs.ports import free_port
from testkit.servers.server import Server
from testkit.waiting import eventually_sync

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def three_queues(on: Claimq) -> None:
    """Queues on the server: thumbnails, thumbs and q."""
    for name in ("thumbnails", "thumbs", "q"):
        on("enqueue", name, "a")


def completed(*words: str, **variables: str) -> tuple[list[str], str]:
    """What the program prints for the last of these words, as fish asks it, and its stderr."""
    asked = {
        "_CLAIMQ_COMPLETE": "fish_complete",
        "COMP_WORDS": " ".join(["claimq", *words]),
        "COMP_CWORD": words[-1],
        **variables,
    }
    command = [sys.executable, "-m", "claimq_cli"]
    done = subprocess.run(command, env={**os.environ, **asked}, capture_output=True, text=True, check=True)
    names = [line.removeprefix("plain,") for line in done.stdout.splitlines() if line]
    return names, done.stderr


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", "complete -o nosort -F _claimq_completion claimq"),
        ("zsh", "#compdef claimq"),
        ("fish", "complete --no-files --command claimq"),
    ],
)
def test_each_shell_has_a_script(claimq: Claimq, shell: str, words: str) -> None:
    answer = claimq("completion", shell)
    assert answer.code == 0
    assert words in answer.out
    assert f"_CLAIMQ_COMPLETE={shell}_complete" in answer.out


def test_an_unknown_shell_is_refused(claimq: Claimq) -> None:
    answer = claimq("completion", "csh")
    assert answer.code == 2
    assert "'bash', 'zsh', 'fish'" in answer.err


def test_bash_completes_commands_and_names(on: Claimq, three_queues: None, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(on("completion", "bash").out)

    def reply(*words: str) -> list[str]:
        line = f"source {script}; COMP_WORDS=(claimq {' '.join(words)}); COMP_CWORD={len(words)}"
        line += '; _claimq_completion claimq; printf "%s\\n" "${COMPREPLY[@]}"'
        env = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "--norc", "-c", line], env=env, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert reply("au") == ["audit"]
    eventually_sync(lambda: reply("status", "thumb") == ["thumbnails", "thumbs"])


def test_names_come_from_the_server_of_the_options(three_queues: None, valkey: Server) -> None:
    url = valkey.url
    no_server = {"CLAIMQ_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    eventually_sync(
        lambda: (
            completed("failed", "reasons", "--redis", url, "thumb", **no_server)
            == (["thumbnails", "thumbs"], "")
        )
    )


def test_the_server_is_asked_only_for_the_list_of_names(
    on: Claimq, three_queues: None, queue_do: QueueDo, valkey: Server
) -> None:
    queue_do(lambda queue: queue.delete())
    assert asyncio.run(known_queues(valkey.url, None)) == ["q", "thumbnails", "thumbs"]
    assert [one["queue"] for one in on("queues", "-o", "json").json["queues"]] == ["thumbnails", "thumbs"]
    assert asyncio.run(known_queues(valkey.url, None)) == ["thumbnails", "thumbs"]


def test_a_completion_without_a_server_is_silent(claimq: Claimq) -> None:
    assert completed("status", "q") == ([], "")
    assert completed("status", "q", CLAIMQ_REDIS_URL=f"redis://127.0.0.1:{free_port()}/0") == ([], "")
    assert completed("status", "q", CLAIMQ_REDIS_URL="http://no-such-scheme") == ([], "")


def test_a_server_that_does_not_answer_ends_the_completion_silently(
    on: Claimq, three_queues: None, valkey: Server
) -> None:
    valkey.sigstop()
    try:
        assert completed("status", "thumb") == ([], "")
    finally:
        valkey.sigcont()
