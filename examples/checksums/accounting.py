"""Checks the results: one correct checksum for each file, and no others.

They are compared with `sha256sum`. A file that it can read must be in the results with the same checksum, and a file
that it cannot read must be in *failed*.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote_to_bytes

_ARGUMENT_BYTES = 100_000


@dataclass(frozen=True)
class Result:
    """A line that a worker wrote."""

    checksum: str
    item_id: str
    path: bytes


@dataclass(frozen=True)
class FailedFile:
    """An item in *failed*."""

    path: bytes
    reason: str
    requeue_count: int


@dataclass
class Account:
    """The outcome of all items. ``mistakes`` is empty if all results are correct."""

    right: int = 0
    repeats: int = 0
    failed: int = 0
    changed: int = 0
    mistakes: list[str] = field(default_factory=list[str])


def read_results(file: Path) -> list[Result]:
    """The results as they were written. Raises ValueError for any other line."""
    if not file.exists():
        return []
    lines = file.read_text("ascii").splitlines()
    found = [line.split(" ") for line in lines]
    return [Result(checksum, item_id, unquote_to_bytes(path)) for checksum, item_id, path in found]


def account(
    enqueued: Mapping[str, bytes],
    results: Sequence[Result],
    failed: Mapping[str, FailedFile],
    sums: Mapping[bytes, str],
    limit: int,
    changed: frozenset[bytes] = frozenset(),
) -> Account:
    """Compares the results with the checksums. ``enqueued``: item id to path; ``failed``: item id to the failed file;
    ``sums``: path to checksum, without unreadable files; ``limit``: the requeue count at which an item goes to
    *failed*; ``changed``: files that were changed during the run and cannot be compared.
    """
    found = Account()
    by_id: dict[str, list[Result]] = {}
    for result in results:
        if enqueued.get(result.item_id) != result.path:
            found.mistakes.append(f"invented: a result for {result.path!r} as item {result.item_id}")
        by_id.setdefault(result.item_id, []).append(result)
    for item_id in failed.keys() - enqueued.keys():
        found.mistakes.append(f"invented: the failed item {item_id}")
    for item_id, path in enqueued.items():
        own = by_id.get(item_id, [])
        found.repeats += max(0, len(own) - 1)
        if path in changed:
            found.changed += 1
        elif (mistake := _mistake(path, own, failed.get(item_id), sums.get(path), limit)) is not None:
            found.mistakes.append(mistake)
        elif own:
            found.right += 1
        else:
            found.failed += 1
    return found


def _mistake(
    path: bytes, results: list[Result], failed: FailedFile | None, checksum: str | None, limit: int
) -> str | None:
    """The mistake for one file, or None."""
    if not results and failed is None:
        return f"lost: {path!r}"
    if results and failed is not None:
        return f"both done and failed: {path!r} ({failed.reason})"
    if failed is not None:
        if checksum is not None:
            return f"failed, but sha256sum can read it: {path!r} ({failed.reason})"
        if not failed.reason:
            return f"failed without a reason: {path!r}"
        if failed.requeue_count != limit:
            return f"failed after {failed.requeue_count} requeues instead of {limit}: {path!r}"
        return None
    if checksum is None:
        return f"done, but sha256sum cannot read it: {path!r}"
    wrong = [result for result in results if result.checksum != checksum]
    return f"wrong: {path!r} has {checksum}, the result has {wrong[0].checksum}" if wrong else None


def independent_sums(paths: Sequence[bytes]) -> dict[bytes, str]:
    """Path to SHA-256 by `sha256sum`, without the files that it cannot read."""
    sums: dict[bytes, str] = {}
    for batch in _batches(paths):
        done = subprocess.run(
            [b"sha256sum", b"--zero", b"--", *batch],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        for line in done.stdout.split(b"\0")[:-1]:
            checksum, _, path = line.partition(b"  ")
            sums[path] = checksum.decode("ascii")
    return sums


def has_sha256sum() -> bool:
    """Whether there is a `sha256sum` that can end lines with NUL bytes, which any file name needs."""
    if shutil.which("sha256sum") is None:
        return False
    done = subprocess.run(["sha256sum", "--zero", "--", os.devnull], capture_output=True, check=False)
    return done.returncode == 0 and done.stdout.endswith(b"\0")


def _batches(paths: Sequence[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for path in paths:
        if batch and size + len(path) > _ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += len(path) + 1
    if batch:
        yield batch
