"""Checksums of thousands of files on one machine, with kills during the work (`make demo`).

    python demo.py [--web] [DIR]      default: the standard library of the Python that runs this

Starts local mode on queue.yaml with its own Valkey, and enqueues the path of every file below DIR, of some files with
odd names and of some unreadable paths. Kills an app and a sidecar and restarts the Valkey while items are in progress,
then compares every result with `sha256sum`. The exit code is 0 only if no result is missing, invented or wrong. All
files and processes of the demo are removed at the end. With --web it also serves the web page of local mode, and waits
for Ctrl-C before it compares.
"""

import asyncio
import os
import shlex
import shutil
import stat
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

import claimq
from claimq.errors import ClaimqError
from claimq.model import State
from claimq_admin.errors import CommandError
from claimq_cli.commands.checking.manifest_files import load_manifests
from claimq_cli.commands.running.up import logs_to
from claimq_cli.commands.running.up_page import OFF, web_page
from claimq_control.manifest import Manifest
from claimq_local.local_mode import LocalMode, Options, first_error
from claimq_local.processes import process_table
from claimq_local.screen.board import Board
from claimq_local.screen.display import shown

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH leaves out a script's own folder

from accounting import Account, FailedFile, account, has_sha256sum, independent_sums, read_results  # noqa: E402 - see above
from faults import FaultMissed, Faults, Hit  # noqa: E402 - see above
from odd_files import Unreadable, make_readable, make_unreadable  # noqa: E402 - see above

MOST_IN_A_PORTION = 500
LONGEST_SILENCE = 45.0
LONGEST_IDLE = 60.0
IDLE_SECONDS = 5.0
SHOWN_MISTAKES = 20
INTERRUPTED = 130
_REST = "those not begun went back uncounted"
"""A killed app or sidecar also held items that were only claimed ahead; these are no crashes."""


class DemoFailed(Exception):
    """The demo could not continue; the message says why."""


@dataclass
class Story:
    """What happened, for the summary. Instants are of the monotonic clock."""

    enqueued: dict[str, bytes] = field(default_factory=dict[str, bytes])
    failed: dict[str, FailedFile] = field(default_factory=dict[str, FailedFile])
    hits: list[Hit] = field(default_factory=list[Hit])
    counters: dict[str, int] = field(default_factory=dict[str, int])
    started_at: float = 0.0
    enqueued_at: float = 0.0
    first_done_at: float = 0.0
    empty_at: float = 0.0
    idle_at: float = 0.0
    most_workers: int = 0


def main() -> int:
    """Runs the demo in a temporary directory."""
    console = Console()
    if not has_sha256sum():
        console.print(
            "the demo compares results with sha256sum of GNU coreutils (with --zero); install coreutils"
        )
        return 2
    arguments = [word for word in sys.argv[1:] if word != "--web"]
    root = Path(arguments[0]).resolve() if arguments else Path(sysconfig.get_paths()["stdlib"])
    if not root.is_dir():
        console.print(f"{root} is not a directory; give one: make demo DIR=...", markup=False, soft_wrap=True)
        return 2
    scratch = Path(tempfile.mkdtemp(prefix="claimq-demo-"))
    try:
        return asyncio.run(Demo(root, scratch, console, has_page="--web" in sys.argv).run())
    except (DemoFailed, FaultMissed, ClaimqError, CommandError) as error:
        console.print(f"FAILED: {error}", style="bold red", markup=False, highlight=False, soft_wrap=True)
        return 1
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class Demo:
    """One run."""

    def __init__(self, root: Path, scratch: Path, console: Console, *, has_page: bool) -> None:
        self.console = console
        self.has_page = has_page
        self.root = root
        self.results = scratch / "results.txt"
        self.story = Story()
        extra = scratch / "files"
        extra.mkdir()
        self.unreadable: list[Unreadable] = make_unreadable(extra)
        ours = [*make_readable(extra), *(one.path for one in self.unreadable)]
        self.paths = _mixed(list(files_below(root)), ours)
        self.stamps = {path: _stamp(path) for path in self.paths}
        self._waiting = list(self.paths)
        self._portion = max(1, min(MOST_IN_A_PORTION, len(self.paths) // 20))  # some are left for each fault
        os.environ["CHECKSUMS_RESULTS"] = str(self.results)
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # or the workers would change files that are compared
        command = shlex.join([sys.executable, str(HERE / "worker.py")])
        manifests = load_manifests(HERE / "queue.yaml", url=None, command=command)
        self.manifests = tuple(_with_short_idle_time(one) for one in manifests)
        self.limit = self.manifests[0].spec.requeue_limit
        self.board = Board(title=f"checksums of {len(self.paths):,} files below {root}")
        self.mode = LocalMode(Options(self.manifests, HERE, scratch / "state"), self.board)

    async def run(self) -> int:
        """The whole demo; the exit code."""
        self.mode.stop_on_signals()
        logs_to(self.board)
        self.story.started_at = time.monotonic()
        async with shown(self.board, self.console), web_page(self.mode, None if self.has_page else OFF):
            try:
                await self._act()
            except BaseExceptionGroup as group:
                raise first_error(group) from group
        if not self.story.idle_at:
            self.console.print("interrupted; nothing is left behind")
            return INTERRUPTED
        found = await asyncio.to_thread(self._account)
        self._summary(found)
        return 1 if found.mistakes else 0

    async def _act(self) -> None:
        running = asyncio.create_task(self.mode.run())
        acting = asyncio.create_task(self._drive())
        try:
            await asyncio.wait([running, acting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not running.done():
                self.mode.stop()
            await asyncio.wait([running])
            acting.cancel()
            await asyncio.wait([acting])
        running.result()
        if not acting.cancelled():
            acting.result()

    async def _drive(self) -> None:
        """Enqueues the paths, causes the faults, and waits until all items are done and no worker is left."""
        await self.mode.started.wait()
        runner = self.mode.runners[0]
        async with claimq.connect(settings=claimq.RedisSettings(runner.url, retry_for=30.0)) as server:
            queue = server.queue(runner.board.name)
            await self._enqueue(queue, len(self.paths) // 2)
            await self._cause_faults(queue)
            await self._enqueue(queue, len(self.paths))
            self.story.enqueued_at = time.monotonic()
            await self._until_empty(queue)
            self.story.empty_at = time.monotonic()
            await self._until_no_worker()
            self.story.idle_at = time.monotonic()
            self.story.most_workers = runner.board.most_ready
            self.story.counters = await queue.stats()
            await self._read_failed(queue)
            if self.has_page:
                self.board.note("demo: the web page stays open until Ctrl-C; then the results are compared")
                await asyncio.Event().wait()

    async def _enqueue(self, queue: claimq.ReliableQueue, number: int) -> None:
        """Enqueues up to ``number`` of the remaining paths, in whole portions."""
        before = len(self.story.enqueued)
        while self._waiting and len(self.story.enqueued) - before < number:
            portion, self._waiting = self._waiting[: self._portion], self._waiting[self._portion :]
            done = await queue.enqueue_many(portion)
            self.story.enqueued.update(zip(done.ids, portion, strict=True))
        self.board.note(f"demo: {len(self.story.enqueued):,} of {len(self.paths):,} paths enqueued")

    async def _cause_faults(self, queue: claimq.ReliableQueue) -> None:
        """Causes three faults, each after a share of the items is done, while items are left."""

        async def feed() -> None:
            if (await queue.length(State.MAIN)) < self._portion and self._waiting:
                await self._enqueue(queue, 1)

        faults = Faults(self.mode, queue, feed)
        steps = ((0.10, faults.kill_app), (0.20, faults.kill_sidecar), (0.30, faults.restart_server))
        for share, fault in steps:
            await self._until_done(queue, int(share * len(self.paths)))
            hit = await fault()
            self.story.hits.append(hit)
            verb = "was restarted with" if hit.what == "Valkey" else "killed with SIGKILL, it had"
            rest = "items left" if hit.what == "Valkey" else "items in progress"
            self.board.note(f"demo: {hit.what} (pid {hit.pid}) {verb} {hit.items:,} {rest}", is_trouble=True)

    async def _until_done(self, queue: claimq.ReliableQueue, number: int) -> None:
        last, since = -1, time.monotonic()
        while True:
            snapshot = await queue.snapshot()
            done = snapshot.counters["done"]
            if done and not self.story.first_done_at:
                self.story.first_done_at = time.monotonic()
            if done >= number:
                return
            if snapshot.lengths[State.MAIN] == 0 and self._waiting:
                await self._enqueue(queue, 1)
            last, since = self._watch(done, last, since)
            await asyncio.sleep(0.02)

    async def _until_empty(self, queue: claimq.ReliableQueue) -> None:
        last, since = -1, time.monotonic()
        while True:
            snapshot = await queue.snapshot()
            if not any(snapshot.lengths[state] for state in (State.MAIN, State.BUSY, State.DELAYED)):
                return
            last, since = self._watch(snapshot.seq, last, since)
            await asyncio.sleep(0.05)

    @staticmethod
    def _watch(value: int, last: int, since: float) -> tuple[int, float]:
        """Raises DemoFailed if a number has not changed for too long."""
        now = time.monotonic()
        if value != last:
            return value, now
        if now - since > LONGEST_SILENCE:
            raise DemoFailed(f"no progress for {LONGEST_SILENCE:.0f} s")
        return last, since

    async def _until_no_worker(self) -> None:
        self.board.note("demo: all items are settled; workers end when they have been idle for a while")
        async with asyncio.timeout(LONGEST_IDLE):
            while self.mode.runners[0].workers:  # noqa: ASYNC110 - there is no event for the end of a process
                await asyncio.sleep(0.05)

    async def _read_failed(self, queue: claimq.ReliableQueue) -> None:
        offset = 0
        while page := await queue.failed_items(500, offset=offset):
            for one in page:
                item = one.item
                self.story.failed[item.id] = FailedFile(
                    item.payload, item.last_error or "", item.requeue_count
                )
            offset += len(page)

    def _account(self) -> Account:
        """Compares the results with sha256sum, and checks that no process and no socket of local mode is left."""
        story = self.story
        sums = independent_sums(self.paths)
        changed = frozenset(path for path, stamp in self.stamps.items() if _stamp(path) != stamp)
        found = account(story.enqueued, read_results(self.results), story.failed, sums, self.limit, changed)
        reasons = {one.path: one.reason for one in story.failed.values()}
        found.mistakes += [
            f"{one.what} has the reason {reasons.get(one.path)!r} instead of {one.reason!r}"
            for one in self.unreadable
            if reasons.get(one.path) != one.reason
        ]
        if len(story.enqueued) != len(self.paths):
            found.mistakes.append(f"{len(self.paths) - len(story.enqueued)} paths were not enqueued")
        left = [str(one.pid) for one in process_table.marked(self.mode.mark)]
        if left or self.mode.sockets.exists():
            found.mistakes.append(
                f"left behind: processes {', '.join(left) or 'none'}, sockets in {self.mode.sockets}"
            )
        return found

    def _summary(self, found: Account) -> None:
        for name, text in [
            *self._rows(found),
            *(("", f"{one.what}: {one.reason}") for one in self.unreadable),
        ]:
            style = "" if name else "dim"
            self.console.print(
                f"  {name:<9}{text}", markup=False, highlight=False, soft_wrap=True, style=style
            )
        for mistake in found.mistakes[:SHOWN_MISTAKES]:
            self.console.print(
                f"  MISTAKE  {mistake}", markup=False, highlight=False, style="bold red", soft_wrap=True
            )
        if len(found.mistakes) > SHOWN_MISTAKES:
            self.console.print(
                f"  and {len(found.mistakes) - SHOWN_MISTAKES} more mistakes", style="bold red"
            )
        verdict = (
            "FAILED" if found.mistakes else "All accounted for: no result is missing, invented or wrong."
        )
        self.console.print(verdict, style="bold red" if found.mistakes else "bold green")
        if not self.has_page:
            self.console.print("make demo WEB=1 shows the queue in a web page.", highlight=False)

    def _rows(self, found: Account) -> Iterator[tuple[str, str]]:
        story, start = self.story, self.story.started_at
        yield (
            "files",
            f"{len(self.paths):,} below {self.root}, {len(self.unreadable)} of them unreadable on purpose",
        )
        yield "correct", f"{found.right:,} checksums, equal to those of sha256sum"
        yield "failed", f"{found.failed:,}, each unreadable, with its reason, after {self.limit} requeues"
        yield "repeats", f"{found.repeats:,} results written again after a kill, counted once by item id"
        if found.changed:
            yield "changed", f"{found.changed:,} files were changed during the run: not compared"
        for hit in story.hits:
            yield "fault", _describe(hit)
        yield "crashes", f"{story.counters.get('crashes', 0)} begun items were requeued; {_REST}"
        yield "workers", f"0 -> {story.most_workers} -> 0"
        moments = {
            "first result": story.first_done_at,
            "all done": story.empty_at,
            "no worker left": story.idle_at,
            "compared": time.monotonic(),
        }
        yield "times", ", ".join(f"{name} {at - start:.1f} s" for name, at in moments.items())


def files_below(root: Path) -> Iterator[bytes]:
    """Every file below a directory, links to files and broken links too; no site-packages, no pipes, no devices."""
    for folder, folders, names in os.walk(os.fsencode(root)):
        folders[:] = sorted(name for name in folders if name != b"site-packages")
        for name in sorted(names):
            path = folder + b"/" + name
            try:
                is_special = not stat.S_ISREG(Path(os.fsdecode(path)).stat().st_mode)
            except OSError:
                is_special = (
                    False  # a broken link, for instance: sha256sum reports the same error as the worker
                )
            if not is_special:
                yield path


def _with_short_idle_time(manifest: Manifest) -> Manifest:
    """So that the demo need not wait a minute for its last worker to end."""
    scaling = replace(manifest.spec.scaling, idle_after=IDLE_SECONDS)
    return replace(manifest, spec=replace(manifest.spec, scaling=scaling))


def _mixed(files: list[bytes], extra: list[bytes]) -> list[bytes]:
    """The files, with the extra ones spread among them."""
    for number, path in enumerate(extra):
        files.insert((number + 1) * len(files) // (len(extra) + 1), path)
    return files


def _stamp(path: bytes) -> tuple[int, int, int] | None:
    """A value that differs after a change of the file."""
    try:
        status = Path(os.fsdecode(path)).stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _describe(hit: Hit) -> str:
    if hit.what == "Valkey":
        return f"the Valkey (pid {hit.pid}) was restarted with {hit.items:,} items in it"
    return f"the {hit.what} (pid {hit.pid}) was killed with {hit.items} items in progress"


if __name__ == "__main__":
    sys.exit(main())
