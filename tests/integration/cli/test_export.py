"""`claimq export`: what it writes, `claimq import` reads; with --remove nothing is lost."""

import asyncio
import json
import os
import resource
from collections.abc import Generator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

import pytest

from claimq import NewItem
from claimq.blocking import BlockingQueue
from claimq_admin.errors import CommandError
from claimq_admin.rate_limit import UNLIMITED
from claimq_admin.text import count
from claimq_cli.migration.export_source import every_item, take_failed
from testkit.plugin import Claimq
from testkit.queues.clock import move_clock
from testkit.servers.patient import open_blocking_queue, open_queue
from testkit.servers.server import Server

PAYLOADS = [b"text", b'{"a": 1}', "Ü\x1b[1m".encode(), b"\xff\0", b"", b'two\r\nlines, "quoted"\n']
KEPT = attrgetter("id", "payload", "client", "headers", "deadline", "max_requeues", "priority", "key")
"""What an item keeps."""


@pytest.fixture
def filled(queue: BlockingQueue) -> BlockingQueue:
    for number, payload in enumerate(PAYLOADS):
        queue.enqueue(payload, id=f"i{number}")
    queue.enqueue("later", id="later", at=4_000_000_000)
    return queue


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_what_is_exported_can_be_imported(
    on: Claimq, valkey: Server, filled: BlockingQueue, tmp_path: Path, form: str
) -> None:
    filled.enqueue(
        "of a client",
        client="acme",
        headers={"a": '"1", 2', "b": ""},
        max_requeues=0,
        priority="low",
        key="k",
    )
    filled.enqueue("in time", deadline=4_000_000_000.5)
    file = f"items.{form}"
    words = ["--to", file, "--format", form, "--state", "main", "--state", "delayed"]
    assert on("export", "q", *words).out == "q: 9 items exported\n"
    assert filled.length() == 8
    before = list(map(KEPT, filled.peek(9)))
    valkey.empty()
    on("import", "q", "--from", file)
    assert list(map(KEPT, filled.peek(9))) == before
    assert [(one.item.id, one.due_at) for one in filled.items("delayed")] == [("later", 4_000_000_000)]


@pytest.fixture
def failures(queue: BlockingQueue) -> BlockingQueue:
    """Three hundred failed items, of which those of `acme` failed by a timeout; more than one page."""
    queue.enqueue_many([NewItem(f"p{n}", id=f"i{n}", client="acme" if n % 3 else None) for n in range(300)])
    for claim in [one for _ in range(30) for one in queue.claim(10, wait=0)]:
        queue.fail(
            claim, f"{'timeout' if claim.item.client else 'broken'} of {claim.item.id}", permanent=True
        )
    return queue


def test_failed_export_writes_the_items_that_pass_its_filters(on: Claimq, failures: BlockingQueue) -> None:
    lines = [json.loads(line) for line in on("failed", "export", "q", "--error", "TIMEOUT").out.splitlines()]
    assert {one["id"] for one in lines} == {f"i{n}" for n in range(300) if n % 3}
    assert all(one["last_error"] == f"timeout of {one['id']}" for one in lines)
    assert failures.length("failed") == 300


@pytest.mark.parametrize(
    ("options", "number"),
    [
        (["--client", "acme"], 200),
        (["--client", "acme", "--error", "of i1"], 75),
        (["--min-age", "1h"], 0),
        (["--min-given-up-count", "1"], 300),
        (["--min-given-up-count", "2"], 0),
        ([], 300),
    ],
)
def test_filters_of_failed_export_are_combined(
    on: Claimq, failures: BlockingQueue, options: list[str], number: int
) -> None:
    assert on("failed", "export", "q", "--to", "file", *options).out == f"q: {count(number)} exported\n"
    assert len(Path("file").read_text().splitlines()) == number


def test_failed_export_takes_out_only_what_it_has_written(on: Claimq, failures: BlockingQueue) -> None:
    words = ["--client", "acme", "--remove", "--to", "old.jsonl"]
    assert on("failed", "export", "q", *words).out == "q: 200 items exported and removed\n"
    staying = [one.item for one in failures.failed_items(300)]
    assert sorted(one.id for one in staying) == sorted(f"i{n}" for n in range(0, 300, 3))
    assert failures.audit_log()[0].target == "failed: client acme"
    on("import", "again", "--from", "old.jsonl")
    assert sorted(on("items", "again", "main", "--limit", "300", "-o", "name").out.split()) == sorted(
        f"i{n}" for n in range(300) if n % 3
    )


@pytest.mark.parametrize("again", [True, False], ids=["fails again", "waits"])
def test_an_item_that_leaves_failed_while_it_is_written_is_not_removed(
    valkey: Server, *, again: bool
) -> None:
    """Under the same id it may be another item by then."""

    async def export() -> None:
        async with open_queue(valkey.url) as queue:
            await queue.enqueue("old", id="x")
            await queue.fail(await queue.claim(1), "first", permanent=True)
            async for _ in take_failed(queue, UNLIMITED, asyncio.Event(), every_item):
                await queue.requeue_failed_item("x")
                if again:
                    await move_clock(queue, 1)
                    await queue.fail(await queue.claim(1), "second", permanent=True)

    with pytest.raises(CommandError, match=r"^1 item left failed, or failed again"):
        asyncio.run(export())
    with open_blocking_queue(valkey.url) as opened:
        found = opened.find("x")
    assert found is not None
    assert (found.state.value, found.item.last_error) == (("failed", "second") if again else ("main", None))


def test_the_lines_on_stdout_have_the_states_of_the_items(on: Claimq, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    queue.fail(queue.claim(1), "no such host", permanent=True)
    lines = on("export", "q", "--state", "failed", "--state", "main").out.splitlines()
    assert [(json.loads(line)["state"], json.loads(line)["last_error"]) for line in lines] == [
        ("failed", "no such host"),
        ("main", None),
    ]


def test_raw_payloads_have_a_separator_that_none_contains(on: Claimq, queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b\nc"])
    refused = on("export", "q", "--format", "raw")
    assert refused.code == 2
    assert "contains the separator; use --null or --format jsonl" in refused.err
    assert on("export", "q", "--format", "raw", "--null").out == "a\0b\nc\0"


def test_many_items_are_exported_in_order(on: Claimq, queue: BlockingQueue) -> None:
    queue.enqueue_many([str(number) for number in range(2500)])
    assert on("export", "q", "--format", "raw").out.split() == [str(number) for number in range(2500)]


def test_items_are_moved_to_a_file_and_back(on: Claimq, filled: BlockingQueue) -> None:
    answer = on("export", "q", "--to", "old.jsonl", "--remove")
    assert answer.out == "q: 6 items exported and removed\n"
    assert filled.length() == 0
    on("import", "again", "--from", "old.jsonl")
    shown = on("items", "again", "main", "-o", "name").out.split()
    assert shown == [f"i{number}" for number in range(len(PAYLOADS))]


def test_failed_items_are_moved_to_a_file(on: Claimq, queue: BlockingQueue, tmp_path: Path) -> None:
    queue.enqueue_many([str(number) for number in range(250)])
    queue.fail(queue.claim(200), "why", permanent=True)
    on("export", "q", "--state", "failed", "--remove", "--to", "failed.jsonl")
    lines = (tmp_path / "failed.jsonl").read_text().splitlines()
    assert sorted(int(json.loads(line)["payload"]) for line in lines) == list(range(200))
    assert (queue.length("failed"), queue.length()) == (0, 50)
    on("export", "q")
    records = [(one.action, one.target, one.count) for one in reversed(queue.audit_log())]
    assert records == [("export", "failed", None), ("export: ended", "failed", 200)]


@contextmanager
def full_after(size: int) -> Generator[None]:
    """No file gets longer than this many bytes, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_named_and_the_items_stay_in_the_queue(
    on: Claimq, filled: BlockingQueue, tmp_path: Path
) -> None:
    with full_after(600):
        answer = on("export", "q", "--remove", "--to", "items")
    why = "items cannot be written (File too large); the items that it lacks are still in the queue"
    assert (answer.code, answer.err) == (1, f"claimq: {why}\n")
    assert (tmp_path / "items").stat().st_size == 600
    assert [item.payload for item in filled.peek(9)] == PAYLOADS


def test_a_new_file_and_its_name_are_on_the_disk_before_items_are_removed(
    on: Claimq, filled: BlockingQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored: list[tuple[Path, int]] = []

    def fsync(handle: int) -> None:
        stored.append((Path(f"/proc/self/fd/{handle}").readlink(), filled.length()))

    monkeypatch.setattr(os, "fsync", fsync)
    on("export", "q", "--remove", "--to", "items")
    assert stored[0] == (tmp_path, 6)
    assert (tmp_path / "items") in [path for path, _ in stored[1:]]


def test_a_paused_queue_is_not_taken_from(on: Claimq, filled: BlockingQueue) -> None:
    filled.pause()
    answer = on("export", "q", "--to", "old.jsonl", "--remove")
    assert answer.code == 4
    assert "main has items that cannot be claimed now; resume the queue if it is paused" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--remove"], "--remove needs another target than stdout, whose reader may lose items"),
        (["--remove", "--to", "a", "--state", "delayed"], "--remove takes items in main and failed"),
        (["--null"], "--null needs --format raw"),
        (["--to", ""], "--to needs the name of a new file, or '-' for stdout"),
        (["--to", "there"], "there exists; name a new file"),
        (["--to", "no/such/folder"], "cannot be written (No such file or directory)"),
    ],
)
def test_exports_that_are_not_safe_are_refused(
    on: Claimq, filled: BlockingQueue, tmp_path: Path, words: list[str], said: str
) -> None:
    (tmp_path / "there").write_text("")
    answer = on("export", "q", *words)
    assert answer.code == 2
    assert said in answer.err
    assert filled.length() == 6
