"""`claimq worker`: what a program is given, and what its exit code makes of the item."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import Item, State
from claimq.policy import Policy
from testkit.programs.forked import run_forked
from testkit.queues.looking import is_empty
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server

Done = subprocess.CompletedProcess[bytes]
RunWorker = Callable[..., Done]
HOSTILE = (
    "$(touch hacked)",
    "; touch hacked",
    "`touch hacked`",
    "'\"",
    "{}",
    "-rf",
    "--",
    "*",
    "a\nb",
    "%s\\n",
)


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    """A queue whose items fail at the first attempt."""
    with open_blocking_queue(valkey.url) as queue:
        queue.set_policy(Policy(requeue_limit=0))
        yield queue


@pytest.fixture
def work(valkey: Server) -> RunWorker:
    """Runs `claimq worker` until the queue is empty."""

    def run(*command: str, options: tuple[str, ...] = ()) -> Done:
        words = ["worker", "q", "--redis", valkey.url, "--until-empty", *options, "--", *command]
        return run_forked("claimq_cli", *words)

    return run


def the_failed(queue: BlockingQueue) -> Item:
    (failed,) = queue.failed_items()
    return failed.item


def test_exit_code_0_ends_the_item_and_the_payload_is_on_stdin(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue_many(["one\n", "two\n"])
    done = work("cat")
    assert (done.returncode, done.stdout) == (0, b"one\ntwo\n")
    assert done.stderr == b"claimq: q: 2 items done, 0 attempts failed, 0 requeued, 0 lost\n"
    assert is_empty(queue)


def test_exit_code_75_requeues_the_item(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue("x")
    queue.set_policy(retrying_at_once(requeue_limit=9))
    done = work("sh", "-c", 'test "$CLAIMQ_ITEM_REQUEUE_COUNT" = 2 || exit 75')
    assert done.stderr == b"claimq: q: 1 item done, 0 attempts failed, 2 requeued, 0 lost\n"


def test_a_requeue_may_have_a_delay(queue: BlockingQueue, work: RunWorker) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=9))
    queue.enqueue("x")
    work("sh", "-c", "exit 75", options=("--requeue-delay", "1h"))
    (delayed,) = queue.items(State.DELAYED)
    assert (delayed.item.requeue_count, delayed.item.fail_count) == (1, 0)


@pytest.mark.parametrize(("options", "delay"), [((), 60), (("--requeue-delay", "1h"), 3600)])
def test_exit_code_69_postpones_the_item(
    queue: BlockingQueue, work: RunWorker, options: tuple[str, ...], delay: int
) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    queue.enqueue("x")
    done = work("sh", "-c", "exit 69", options=options)
    assert done.stderr == b"claimq: q: 0 items done, 0 attempts failed, 0 requeued, 0 lost, 1 postponed\n"
    (delayed,) = queue.items(State.DELAYED)
    assert (delayed.item.requeue_count, delayed.item.postponed_count) == (0, 1)
    assert delay - 60 < (delayed.due_at or 0) - queue.snapshot().now <= delay


def test_exit_code_69_can_close_the_queue(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue("x")
    work("sh", "-c", "exit 69", options=("--close", "queue", "--requeue-delay", "1h"))
    pause = queue.snapshot().pause
    assert pause is not None
    assert (pause.by_app, (pause.until or 0) - (pause.at or 0)) == (True, 3600)


def test_exit_code_65_is_a_permanent_failure(queue: BlockingQueue, work: RunWorker) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=9))
    queue.enqueue("x")
    assert b"0 items done, 1 attempt failed" in work("sh", "-c", "exit 65").stderr
    assert (the_failed(queue).last_error, the_failed(queue).fail_count) == (
        "the program exited with code 65", 1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("exit 1", "the program exited with code 1"),
        ("exit 127", "the program exited with code 127 (command not found)"),
        ("echo; echo ' no space' >&2; echo b >&2; exit 3", "the program exited with code 3: no space"),
        ("python3 -c 'print(1); raise SystemError(7)'", "the program exited with code 1: SystemError: 7"),
        ("kill -SEGV $$", "the program was killed by SIGSEGV"),
        ("kill -KILL $$", "the program was killed by SIGKILL"),
    ],
)
def test_other_exit_codes_and_signals_fail(
    queue: BlockingQueue, work: RunWorker, script: str, error: str
) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=1))
    queue.enqueue("x", id="x")
    done = work("sh", "-c", script)
    assert f"claimq: 1 of q failed: x (attempt 1): {error}\n".encode() in done.stderr
    assert (the_failed(queue).last_error, the_failed(queue).fail_count) == (error, 2)


def test_the_end_of_both_outputs_is_kept_with_a_failed_item(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue("x")
    script = (
        "import os, sys; os.write(1, b'a' * 3000 + b'\\xff\\n'); os.write(2, b'the cause\\n'); sys.exit(1)"
    )
    done = work(sys.executable, "-c", script)
    detail = the_failed(queue).error_detail or ""
    assert sorted(detail.strip("a\n").splitlines()) == ["the cause", "\N{REPLACEMENT CHARACTER}"]
    assert len(detail.encode("utf-8")) == 2002
    assert done.stdout == b"a" * 3000 + b"\xff\n"
    assert b"the cause\n" in done.stderr


def test_output_without_a_line_end_is_passed_on_byte_for_byte(queue: BlockingQueue, work: RunWorker) -> None:
    payload = os.urandom(300_000).replace(b"\n", b"\0")
    queue.enqueue(payload)
    assert work("cat").stdout == payload


def test_a_binary_payload_is_on_stdin_unchanged_even_if_unread(
    queue: BlockingQueue, work: RunWorker, tmp_path: Path
) -> None:
    payload = bytes(range(256)) * 1000
    queue.enqueue(payload)
    work("cp", "/dev/stdin", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == payload
    queue.enqueue(payload)
    assert b"1 item done" in work("true").stderr


def test_the_environment_names_the_item_and_its_attempts(
    queue: BlockingQueue, work: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAIMQ_ITEM_CLIENT", "of the outside")
    queue.set_policy(retrying_at_once(requeue_limit=1))
    queue.enqueue("x", id="order-1", client="ann")
    queue.enqueue("y", id="order-2")
    script = (
        "import json, os, sys; print(json.dumps(dict(os.environ))); "
        "sys.exit(os.environ['CLAIMQ_ITEM_FAIL_COUNT'] == '0')"
    )
    seen = [json.loads(line) for line in work(sys.executable, "-c", script).stdout.splitlines()]
    found = [{name: value for name, value in one.items() if name.startswith("CLAIMQ_")} for one in seen]
    for one in found:
        assert [one.pop(name) for name in list(one) if name.startswith("CLAIMQ_WORKER_RUN_")] == ["1"]
    assert {one["CLAIMQ_ITEM_ID"]: one.get("CLAIMQ_ITEM_CLIENT") for one in found} == {
        "order-1": "ann", "order-2": None,
    }  # fmt: skip
    last = next(one for one in reversed(found) if one["CLAIMQ_ITEM_ID"] == "order-1")
    assert last == {
        "CLAIMQ_QUEUE": "q", "CLAIMQ_ITEM_ID": "order-1", "CLAIMQ_ITEM_CLIENT": "ann", "CLAIMQ_ITEM_REQUEUE_COUNT": "1",
        "CLAIMQ_ITEM_FAIL_COUNT": "1", "CLAIMQ_ITEM_CRASH_COUNT": "0", "CLAIMQ_ITEM_INTERRUPTED_COUNT": "0",
        "CLAIMQ_ITEM_POSTPONED_COUNT": "0", "CLAIMQ_ITEM_GIVEN_UP_COUNT": "0", "CLAIMQ_ITEM_PRIORITY": "normal",
        "CLAIMQ_ITEM_COST": "1",
    }  # fmt: skip


def test_the_environment_has_the_options_of_the_item_alone(
    queue: BlockingQueue, work: RunWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("PRIORITY", "DEADLINE", "MAX_REQUEUES", "KEY", "HEADER_A")
    for option in options:
        monkeypatch.setenv(f"CLAIMQ_ITEM_{option}", "of the outside")
    queue.enqueue("x", deadline=4e9, max_requeues=7, priority="high", key="ann/1", headers={"a": "b"})
    queue.enqueue("y")
    script = f"import os; print(*(os.environ.get('CLAIMQ_ITEM_' + name) for name in {options}))"
    assert work(sys.executable, "-c", script).stdout.decode().splitlines() == [
        "high 4000000000.0 7 ann/1 b",
        "normal None None None None",
    ]


def test_hostile_payloads_and_ids_stay_single_words(
    queue: BlockingQueue, work: RunWorker, tmp_path: Path
) -> None:
    ids = ["$(touch${IFS}hacked)", "`id`", "-rf", "--", "*", "'\"", "a=b", "../../etc"]
    for number, payload in enumerate(HOSTILE):
        queue.enqueue(payload, id=ids[number] if number < len(ids) else None)
    script = "import json, os, sys; print(json.dumps([os.environ['CLAIMQ_ITEM_ID'], sys.argv[1:]]))"
    done = work(sys.executable, "-c", script, "{}", "x{}={}", options=("-I", "{}"))
    seen = [json.loads(line) for line in done.stdout.splitlines()]
    assert [arguments for _, arguments in seen] == [[one, f"x{one}={one}"] for one in HOSTILE]
    assert [item_id for item_id, _ in seen][: len(ids)] == ids
    assert not (tmp_path / "hacked").exists()


def test_a_payload_that_is_not_utf8_can_be_an_argument(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue(b"caf\xe9")
    assert work("printf", "%s", "X", options=("-I", "X")).stdout == b"caf\xe9"


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (b"a\0b", "the payload has a NUL byte and cannot be an argument; run the worker without -I"),
        (b"x" * 200_000, "the payload is too long for an argument (an argument has at most 131,071 bytes)"),
    ],
    ids=["NUL", "long"],
)
def test_a_payload_that_cannot_be_an_argument_fails_permanently(
    queue: BlockingQueue, work: RunWorker, payload: bytes, error: str
) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=9))
    queue.enqueue(payload)
    work("echo", "{}", options=("-I", "{}"))
    assert (the_failed(queue).last_error or "").startswith(error)
    assert the_failed(queue).fail_count == 1


def test_too_many_long_arguments_fail_permanently_too(queue: BlockingQueue, work: RunWorker) -> None:
    queue.set_policy(retrying_at_once(requeue_limit=9))
    queue.enqueue(b"x" * 130_000)
    work("echo", *["{}"] * 100, options=("-I", "{}"))
    assert "the system refuses all arguments together" in (the_failed(queue).last_error or "")
    assert the_failed(queue).fail_count == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program"], "there is no program no-such-program on PATH; correct its name"),
        (["--", "./no-such-program"], "there is no program ./no-such-program; correct its name"),
        (["--", "./a-text"], "./a-text is not executable; run `chmod +x` on it"),
        (["--", "/etc"], "/etc is a directory; give a program"),
        (
            ["-I", "{}", "--", "echo"],
            "-I: no argument of echo contains {}; add it, or remove -I to use stdin",
        ),
        (["-I", "ech", "--", "echo"], "-I: the program echo contains the placeholder"),
        (["-I", "", "--", "echo"], '-I: "" is empty; write a placeholder'),
        (["cat"], "write the program after --: claimq worker NAME -- COMMAND"),
        (["--"], "Missing argument"),
        (["--timeout", "5", "--", "cat"], '"5" has no unit'),
    ],
)
def test_an_error_of_the_command_line_claims_nothing(
    queue: BlockingQueue, valkey: Server, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "a-text").touch(mode=0o644)
    queue.enqueue("x")
    done = run_forked("claimq_cli", "worker", "q", "--redis", valkey.url, "--until-empty", *arguments)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)
    assert said in done.stderr.decode()
    assert queue.peek()[0].history == ()
    assert queue.length() == 1


def test_a_queue_that_does_not_exist_or_is_paused_is_an_error(
    queue: BlockingQueue, valkey: Server, work: RunWorker
) -> None:
    queue.enqueue("x")
    queue.pause()
    done = work("cat")
    assert done.returncode == 1
    assert b"claimq: the queue q is paused; run `claimq resume q`\n" in done.stderr
    other = run_forked("claimq_cli", "worker", "other", "--redis", valkey.url, "--", "cat")
    assert other.returncode == 1
    assert b"there is no queue other on this server" in other.stderr


def test_json_leaves_stdout_to_one_document(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue("its output")
    done = work("cat", options=("-o", "json"))
    assert json.loads(done.stdout) == {
        "queue": "q", "done": 1, "failed": 0, "requeued": 0, "postponed": 0, "lost": 0, "stopped_by": "empty",
    }  # fmt: skip
    assert b"its output" in done.stderr


def test_a_broken_pipe_ends_a_program_quietly(queue: BlockingQueue, work: RunWorker) -> None:
    queue.enqueue("x")
    assert work("sh", "-c", "yes | head -1").stderr == (
        b"claimq: q: 1 item done, 0 attempts failed, 0 requeued, 0 lost\n"
    )
