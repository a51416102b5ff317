"""The workers and producers of examples/languages, each with a real sidecar that is drained and killed."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from claimq.blocking import BlockingQueue
from claimq.model import NewItem, State
from claimq.policy import Policy
from claimq_local.processes import process_table
from clusterkit import toolchain
from testkit.faults.waiting_pipe import Pipe
from testkit.plugin import report_log
from testkit.programs.languages import build_go, install_node
from testkit.programs.processes import Process, whole_lines
from testkit.queues.looking import is_empty
from testkit.repository.tree import ROOT
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.client_drivers import NODE, NPM
from testkit.workers.sidecars import Sidecar, StartSidecar

EXAMPLES = ROOT / "examples" / "languages"
PROGRAMS = ("worker", "producer")
NAMES = ("plain", "with a space", 'quote " and \\ backslash', "ümläut")


@dataclass(frozen=True)
class Language:
    """How the two programs are started, and the programs that have to be installed for that."""

    worker: Sequence[str | Path]
    producer: Sequence[str | Path]
    needs: Sequence[str] = ()
    locale: str = "C"
    """Another charset than UTF-8, in which no program may read or write."""


def go(build: Path) -> Language:
    worker, producer = (build_go(toolchain.go(), EXAMPLES / f"{name}.go", build / name) for name in PROGRAMS)
    return Language(worker, producer)


def node(build: Path) -> Language:
    worker, producer = (install_node(NODE, NPM, EXAMPLES / f"{name}.js", build / name) for name in PROGRAMS)
    return Language(worker, producer)


def java(build: Path) -> Language:
    if shutil.which("javac"):  # else the language is skipped
        subprocess.run(["javac", "-d", build, *EXAMPLES.glob("*.java")], check=True)
    start: list[str | Path] = ["java", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=ISO-8859-1", "-cp", build]
    # The JDK names files in the charset of the locale, whatever a program does.
    return Language([*start, "Worker"], [*start, "Producer"], ("java", "javac"), "C.UTF-8")


def script(program: str | Path, ending: str, needs: Sequence[str] = ()) -> Callable[[Path], Language]:
    worker, producer = EXAMPLES / f"worker.{ending}", EXAMPLES / f"producer.{ending}"
    return lambda _: Language([program, worker], [program, producer], needs)


LANGUAGES = {
    "go": go,
    "java": java,
    "node": node,
    "python": script(sys.executable, "py"),
    "ruby": script("ruby", "rb", needs=("ruby",)),
    "shell": script("bash", "sh", needs=("bash", "curl", "jq")),
}


@pytest.fixture(scope="module", params=LANGUAGES)
def language(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Language:
    made = LANGUAGES[request.param](tmp_path_factory.mktemp(request.param))
    if missing := [program for program in made.needs if not shutil.which(program)]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    return made


@pytest.fixture
def sidecar(valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar) -> Sidecar:
    """A sidecar with the concurrency that the manifest has by default."""
    del queue  # which is emptied first
    return start_sidecar(valkey.url, concurrency="1")


class Run:
    """Workers of one language at one sidecar, and what they have written."""

    def __init__(self, language: Language, sidecar: Sidecar, folder: Path) -> None:
        self.language = language
        self.folder = folder
        self.log = folder / "log"
        self.env = {"CLAIMQ_SOCKET": str(sidecar.socket), "LC_ALL": language.locale}
        self._workers: list[Process] = []

    def start(self) -> Process:
        """A worker, with a process group of its own."""
        command: list[str | Path] = ["setsid", *self.language.worker]
        self._workers.append(Process(command, log=self.log, env=self.env, cwd=self.folder))
        return self._workers[-1]

    @staticmethod
    def kill(worker: Process) -> None:
        """SIGKILL to the worker and what it has started, as the end of its container would. When it returns, none of
        them has a file open: a reader of the pipe would get what the test writes for the next worker."""
        with suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.kill9()
        eventually_sync(lambda: is_gone(worker))

    def close(self) -> None:
        for worker in self._workers:
            self.kill(worker)

    def produce(self, *paths: Path) -> None:
        """Enqueues these by the producer."""
        lines = "".join(f"{path}\n" for path in paths).encode()
        command = [str(part) for part in self.language.producer]
        subprocess.run(command, input=lines, check=True, env={**os.environ, **self.env}, cwd=self.folder)

    @property
    def sums(self) -> list[str]:
        """The checksums that were written."""
        return [line[:64] for line in whole_lines(self.log) if len(line.split(" ")[0]) == 64]


@pytest.fixture
def run(
    language: Language, sidecar: Sidecar, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Run]:
    made = Run(language, sidecar, tmp_path)
    report_log(request, "workers", made.log)
    yield made
    made.close()


SEVERAL_AT_ONCE = pytest.mark.parametrize("language", ["go", "node"], indirect=True, scope="module")
"""The languages whose workers use a stream."""


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    return Pipe(tmp_path / "pipe")


def begin(run: Run, pipe: Pipe, queue: BlockingQueue) -> Process:
    """A worker in the middle of an item."""
    run.produce(pipe.path)
    worker = run.start()
    eventually_sync(pipe.is_read, why="the worker reads the pipe")
    assert queue.lengths()[State.BUSY] == 1
    return worker


def is_gone(worker: Process) -> bool:
    """Whether no process of its group runs. Zombies have closed their files."""
    running = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit()]
    return not any(
        process_table.group_of(pid) == worker.pid and process_table.identify(pid) for pid in running
    )


def wait_until_done(queue: BlockingQueue) -> None:
    eventually_sync(lambda: is_empty(queue))


def wait_until_uncounted(queue: BlockingQueue, path: Path) -> None:
    """Waits until this item alone is in main, without a crash. It may have been claimed just before the worker closed
    the window, and is on its way back then."""
    there = [(bytes(path), 0)]
    eventually_sync(lambda: [(item.payload, item.crash_count) for item in queue.peek(2)] == there)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_each_file_has_its_checksum_and_a_missing_one_has_failed(
    run: Run, queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path
) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    files = [tmp_path / name for name in NAMES]
    for file in files:
        file.write_text(f"content of {file.name}")
    missing = tmp_path / "missing"
    run.produce(*files, missing)
    worker = run.start()
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 1])
    sidecar.drain()
    assert worker.wait() == 0
    assert sorted(run.sums) == sorted(sha256(file.read_bytes()) for file in files)
    (failed,) = queue.failed_items()
    assert failed.item.payload == bytes(missing)
    assert failed.item.last_error not in (None, "")


def test_headers_named_like_fields_and_unusual_payloads_and_ids_confuse_no_worker(
    run: Run, queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path
) -> None:
    queue.set_policy(Policy(requeue_limit=0))
    headers = {name: f'"{name}":"other"}}' for name in ("token", "id", "text", "payload", "claims")}
    files = [
        tmp_path / name for name in ("日本 😀", 'a " and \\', "two\nlines", "a last newline\n", "x" * 200)
    ]
    for file in files:
        file.write_text(f"content of {file.name}")
    items = {f'{number}"}}\\': bytes(file) for number, file in enumerate(files)} | {"empty": b""}
    queue.enqueue_many([NewItem(path, id=name, headers=headers) for name, path in items.items()])
    worker = run.start()
    eventually_sync(lambda: list(queue.lengths().values()) == [0, 0, 0, 1])
    sidecar.drain()
    assert worker.wait() == 0
    results = [f"{sha256(file.read_bytes())} {name}" for name, file in zip(items, files, strict=False)]
    assert [line for line in whole_lines(run.log) if line.endswith('"}\\')] == results
    assert [failed.item.id for failed in queue.failed_items()] == ["empty"]


def test_a_producer_enqueues_each_line_once(run: Run, queue: BlockingQueue, tmp_path: Path) -> None:
    paths = [tmp_path / f'{number} "ü" \\' for number in range(101)]
    for _ in range(2):
        run.produce(*paths)
    assert [item.payload for item in queue.peek(1000)] == [bytes(path) for path in paths]


def test_an_item_whose_worker_is_killed_goes_to_the_next(run: Run, queue: BlockingQueue, pipe: Pipe) -> None:
    run.kill(begin(run, pipe, queue))
    (item,) = eventually_sync(lambda: queue.peek(2))
    assert item.crash_count == 1
    pipe.close()
    run.start()
    eventually_sync(pipe.is_read)
    pipe.write(b"content")
    wait_until_done(queue)
    assert run.sums == [sha256(b"content")]


def test_a_worker_goes_on_with_a_sidecar_that_was_killed(
    run: Run, queue: BlockingQueue, pipe: Pipe, sidecar: Sidecar, tmp_path: Path
) -> None:
    begin(run, pipe, queue)
    sidecar.kill9()
    sidecar.start()
    pipe.write(b"content")
    wait_until_done(queue)
    (tmp_path / "next").write_bytes(b"next")
    run.produce(tmp_path / "next")
    wait_until_done(queue)
    assert run.sums == [sha256(b"content"), sha256(b"next")]


def test_a_worker_that_is_killed_while_the_sidecar_is_away_leaves_no_process(
    run: Run, queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    run.produce(tmp_path / "file")
    worker = run.start()
    wait_until_done(queue)
    sidecar.kill9()
    worker.kill9()
    eventually_sync(lambda: is_gone(worker))


def test_a_worker_that_is_terminated_finishes_its_item_first(
    run: Run, queue: BlockingQueue, pipe: Pipe, tmp_path: Path
) -> None:
    worker = begin(run, pipe, queue)
    run.produce(tmp_path / "not begun")
    worker.send(signal.SIGTERM)
    pipe.write(b"content")
    assert worker.wait() in (0, 128 + signal.SIGTERM)  # Java's exit code
    assert run.sums == [sha256(b"content")]
    wait_until_uncounted(queue, tmp_path / "not begun")  # it may have claimed this before it saw the signal


@SEVERAL_AT_ONCE
def test_a_worker_has_as_many_items_in_progress_as_the_concurrency_allows(
    run: Run, valkey: Server, queue: BlockingQueue, tmp_path: Path, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="3")
    run.env["CLAIMQ_SOCKET"] = str(sidecar.socket)
    pipes = [Pipe(tmp_path / str(number)) for number in range(3)]
    run.produce(*(pipe.path for pipe in pipes))
    worker = run.start()
    for pipe in pipes:
        eventually_sync(pipe.is_read)
    pipes[2].write(b"first")
    eventually_sync(lambda: queue.length(State.BUSY) == 2)
    sidecar.kill9()
    sidecar.start()
    eventually_sync(lambda: sidecar.info["in_flight"] == 2, why="the new stream takes over the other two")
    worker.send(signal.SIGTERM)
    eventually_sync(worker.is_idle, why="it knows that it has to stop")
    (tmp_path / "not begun").write_bytes(b"")
    pipes[0].write(b"second")
    eventually_sync(lambda: queue.length(State.BUSY) == 1)
    run.produce(tmp_path / "not begun")
    pipes[1].write(b"third")
    assert worker.wait() == 0
    assert run.sums == [sha256(content) for content in (b"first", b"second", b"third")]
    wait_until_uncounted(queue, tmp_path / "not begun")


@SEVERAL_AT_ONCE
def test_a_worker_terminated_while_its_stream_opens_returns_what_it_delivers(
    run: Run,
    valkey: Server,
    queue: BlockingQueue,
    pipe: Pipe,
    tmp_path: Path,
    start_sidecar: StartSidecar,
) -> None:
    sidecar = start_sidecar(valkey.url, concurrency="2")
    run.env["CLAIMQ_SOCKET"] = str(sidecar.socket)
    worker = begin(run, pipe, queue)
    sidecar.kill9()
    valkey.sigstop()  # so that the next stream cannot take over the item yet
    try:
        sidecar.start(wait=False)
        eventually_sync(lambda: sidecar.info["sessions"] == 1, why="the worker opens a stream")
        worker.send(signal.SIGTERM)
        eventually_sync(worker.is_idle, why="it knows that it has to stop, and waits for its stream")
    finally:
        valkey.sigcont()
    (tmp_path / "not begun").write_bytes(b"")
    run.produce(tmp_path / "not begun")
    pipe.write(b"content")
    assert worker.wait() == 0
    assert run.sums == [sha256(b"content")]
    wait_until_uncounted(queue, tmp_path / "not begun")
