"""`claimq enqueue --lines`: no signal is lost, where it stopped is said, and it can be gone on with."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.limits import Limit
from claimq.policy import Policy
from claimq_cli.commands.moving.input_source import InputSource, Portion
from testkit.programs.processes import Process
from testkit.programs.terminal import CTRL_C, Terminal
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "claimq_cli", "enqueue", "q", "--redis", url, *arguments]


def portions(data: bytes, end: bytes = b"\n") -> list[Portion]:
    """What a pipe with these bytes gives."""

    async def read() -> list[Portion]:
        out, into = os.pipe()
        os.set_blocking(into, True)
        writing = asyncio.create_task(asyncio.to_thread(_write, into, data))
        with InputSource(f"/proc/self/fd/{out}") as source:
            os.close(out)
            found = [one async for one in source.portions(end, asyncio.Event())]
        await writing
        return found

    return asyncio.run(read())


def _write(into: int, data: bytes) -> None:
    with os.fdopen(into, "wb") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [(1, b"a")]),
        (b"a\n\r\n\nb\r\nc", [(1, b"a"), (4, b"b"), (5, b"c")]),
        (b"x" * 700_000 + b"\nb\n", [(1, b"x" * 700_000), (2, b"b")]),
        (b"\n" * 3000 + b"last", [(3001, b"last")]),
    ],
)
def test_lines_keep_their_numbers_in_whatever_pieces_they_come(
    data: bytes, lines: list[tuple[int, bytes]]
) -> None:
    found = portions(data)
    assert [line for portion in found for line in portion.lines] == lines
    assert all(portion.last - portion.first < 1000 for portion in found)
    assert [one.first for one in found] == [1, *(one.last + 1 for one in found)][: len(found)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_load_that_waits_for_lines(
    valkey: Server, queue: BlockingQueue, number: signal.Signals
) -> None:
    with subprocess.Popen(
        command(valkey.url, "--lines", "-"), stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as load:
        assert load.stdin is not None
        assert load.stderr is not None
        load.stdin.write("one\n\ntwo\nhalf a line")
        load.stdin.flush()
        eventually_sync(lambda: queue.length() == 2)
        load.send_signal(number)
        said = load.stderr.read()
        assert load.wait(PATIENCE) == 130
    assert said == "claimq: interrupted; stopped after line 3, 2 enqueued; continue with --from-line 4\n"


@pytest.mark.parametrize(
    ("option", "said"), [("--lines", "stopped after line 0"), ("--file", "nothing was enqueued")]
)
def test_a_signal_ends_what_waits_for_a_pipes_writer(
    valkey: Server, tmp_path: Path, option: str, said: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    log = tmp_path / "log"
    load = Process(command(valkey.url, option, str(tmp_path / "pipe")), log=log)
    eventually_sync(lambda: _catches(load.pid, signal.SIGTERM))
    load.send(signal.SIGTERM)
    assert load.wait(PATIENCE) == 130
    assert said in log.read_text()


def _catches(pid: int, number: int) -> bool:
    """Whether the process has a handler of its own for the signal."""
    found = re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def test_an_interrupted_load_is_gone_on_with_where_it_stopped(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    out, into = os.pipe()
    written = 0
    with Terminal(command(valkey.url, "--lines", "-"), stdin=out) as terminal:
        while b" enqueued\x1b[K" not in terminal.output:  # the progress, once the load has lasted a moment
            written += os.write(into, b"x\n") // 2
            terminal.read_for(0.05)
        eventually_sync(lambda: queue.length() == written)
        terminal.type(CTRL_C)
        code = terminal.wait()
        said = terminal.output.decode()
    os.close(out)
    os.close(into)
    assert code == 130
    assert (
        f"stopped after line {written}, {written:,} enqueued; continue with --from-line {written + 1}" in said
    )
    file = tmp_path / "lines"
    file.write_text("x\n" * (written + 5))
    arguments = command(valkey.url, "--lines", str(file), "--from-line", str(written + 1))
    subprocess.run(arguments, timeout=PATIENCE, check=True)
    assert queue.length() == written + 5


def test_an_id_for_each_line_makes_a_repeat_harmless(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    (tmp_path / "lines").write_text("a\nb\nc\n")
    arguments = command(valkey.url, "--lines", str(tmp_path / "lines"), "--id-prefix", "load-7-")
    for enqueued in ("3 items enqueued", "0 items enqueued, 3 items known already"):
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE, check=True)
        assert enqueued in done.stdout
    assert [item.id for item in queue.peek(9)] == ["load-7-1", "load-7-2", "load-7-3"]


CUT = "2 lines of the input: empty and skipped, or without the carriage return at the end; --null keeps all bytes"


def test_lines_that_are_refused_are_named_and_the_others_are_stored(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.set_policy(Policy(max_payload=10))
    lines = ["ok"] * 1500 + ["", "x" * 11, "cut\r", "ok", "y" * 12]
    (tmp_path / "lines").write_bytes("\n".join(lines).encode())
    words = command(valkey.url, "--lines", str(tmp_path / "lines"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "claimq: line 1502 is not enqueued: the payload has 11 bytes and the queue takes at most 10",
        "claimq: line 1505 is not enqueued: the payload has 12 bytes and the queue takes at most 10",
        f"claimq: {CUT}",
    ]
    assert "q: 1,502 items enqueued, 2 lines refused" in done.stdout
    assert queue.length() == 1502


def test_a_line_that_costs_too_much_is_named_and_the_others_are_stored(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.set_policy(Policy(limits=[Limit("tokens", rate="1/s", burst=9, unit="cost")]))
    lines = [json.dumps({"payload": "x", "cost": cost}) for cost in (9, 10, 0, 1)]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    words = [*command(valkey.url, "--from", str(tmp_path / "lines.jsonl"))]
    words[words.index("enqueue")] = "import"
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "line 2 is not enqueued: it costs 10, and the limit tokens lets 9 start at once" in done.stderr
    assert "line 3 is not enqueued: cost is not a whole number from 1 to 1,000,000" in done.stderr
    assert [item.cost for item in queue.peek(9)] == [9, 1]


def test_a_json_answer_has_the_lines_that_are_refused(
    valkey: Server, queue: BlockingQueue, tmp_path: Path
) -> None:
    queue.set_policy(Policy(max_payload=10))
    (tmp_path / "lines").write_text("ok\n" + "x" * 11 + "\n\n")
    words = command(valkey.url, "--lines", str(tmp_path / "lines"), "-o", "json")
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    document = json.loads(done.stdout)
    reason = "the payload has 11 bytes and the queue takes at most 10"
    assert document["refused"] == [{"line": 2, "reason": reason}]
    assert (document["enqueued"], document["refused_count"], document["cut_count"]) == (1, 1, 1)


def test_a_server_that_goes_away_leaves_some_lines_in_doubt(valkey: Server, queue: BlockingQueue) -> None:
    with subprocess.Popen(
        command(valkey.url, "--lines", "-", "--id-prefix", "p"),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as load:
        assert load.stdin is not None
        assert load.stderr is not None
        load.stdin.write("one\n")
        load.stdin.flush()
        eventually_sync(lambda: queue.length() == 1)
        valkey.kill9()
        load.stdin.write("two\n")
        load.stdin.flush()
        said = load.stderr.read()
        assert load.wait(PATIENCE) == 3
    assert "stopped after line 1, 1 enqueued; continue with --from-line 2 --id-prefix p" in said
    assert "lines 2 to 2 may or may not be stored" in said


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_number_of_lines(valkey: Server, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_bytes(b"x\n" * 300_000)
    peaks: list[int] = []
    for first in (290_001, 1):
        program = [
            sys.executable,
            "-c",
            MEASURE,
            *command(valkey.url, "--lines", str(file), "--from-line", str(first)),
        ]
        done = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 8 * 1024, f"KiB at the peak with 10,000 and 300,000 lines: {peaks}"
