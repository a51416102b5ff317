"""The demo finds every kind of mistake, and the example's worker reads only regular files."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from testkit.programs.examples import load

accounting, odd_files, worker = load("accounting"), load("odd_files"), load("worker")

UNPRIVILEGED = 65534
A, B, C = b"/a", b"/b", b"/c"
ENQUEUED = {"1": A, "2": B, "3": C}
SUMS = {A: "aa", B: "bb"}
LIMIT = 3


def result(item_id: str, checksum: str, path: bytes) -> object:
    return accounting.Result(checksum, item_id, path)


GOOD = [result("1", "aa", A), result("2", "bb", B)]
FAILED = {"3": accounting.FailedFile(C, "No such file or directory", LIMIT)}


def mistakes(results: list[object], failed: dict[str, object], **changes: object) -> list[str]:
    given = {"enqueued": ENQUEUED, "sums": SUMS, "limit": LIMIT, **changes}
    found = accounting.account(results=results, failed=failed, **given).mistakes
    return [str(one) for one in found]


def test_a_correct_run_has_no_mistakes() -> None:
    found = accounting.account(ENQUEUED, GOOD, FAILED, SUMS, LIMIT)
    assert (found.right, found.repeats, found.failed, found.mistakes) == (2, 0, 1, [])


def test_repeated_results_of_an_item_count_once() -> None:
    found = accounting.account(ENQUEUED, [*GOOD, GOOD[0], GOOD[0]], FAILED, SUMS, LIMIT)
    assert (found.right, found.repeats, found.mistakes) == (2, 2, [])


@pytest.mark.parametrize(
    ("results", "failed", "words"),
    [
        (GOOD[:1], FAILED, "lost"),
        ([GOOD[0], result("2", "xx", B)], FAILED, "wrong"),
        ([*GOOD, result("1", "xx", A)], FAILED, "wrong"),
        ([*GOOD, result("9", "zz", b"/z")], FAILED, "invented"),
        ([GOOD[0], GOOD[1], result("1", "bb", B)], FAILED, "invented"),
        ([*GOOD, result("3", "cc", C)], {}, "sha256sum cannot read it"),
        ([*GOOD, result("3", "cc", C)], FAILED, "both done and failed"),
        (GOOD, {**FAILED, "9": FAILED["3"]}, "invented"),
        (GOOD, {"3": accounting.FailedFile(C, "", LIMIT)}, "without a reason"),
        (GOOD, {"3": accounting.FailedFile(C, "gone", LIMIT - 1)}, "failed after 2 requeues instead of 3"),
        (GOOD[:1], {**FAILED, "2": accounting.FailedFile(B, "crash", LIMIT)}, "sha256sum can read it"),
    ],
)
def test_every_kind_of_mistake_is_found(results: list[object], failed: dict[str, object], words: str) -> None:
    found = mistakes(results, failed)
    assert found
    assert words in " ".join(found)


def test_a_file_changed_during_the_run_is_not_compared() -> None:
    found = accounting.account(ENQUEUED, [GOOD[0], result("2", "xx", B)], FAILED, SUMS, LIMIT, frozenset([B]))
    assert (found.right, found.changed, found.mistakes) == (1, 1, [])


def test_sha256sum_and_the_worker_agree_on_odd_and_unreadable_files(tmp_path: Path) -> None:
    readable = odd_files.make_readable(tmp_path)
    unreadable = odd_files.make_unreadable(tmp_path)
    sums = accounting.independent_sums([*readable, *(one.path for one in unreadable)])
    assert sums == {path: worker.checksum(path) for path in readable}
    for one in unreadable:
        with pytest.raises((OSError, ValueError)) as raised:
            worker.checksum(one.path)
        assert worker.reason(raised.value) == one.reason


def test_only_root_can_read_a_file_without_permission() -> None:
    folder = Path(tempfile.mkdtemp())
    before = os.geteuid()
    try:
        if before == 0:
            os.chown(folder, UNPRIVILEGED, -1)
            os.seteuid(UNPRIVILEGED)
        secret = odd_files.make_unreadable(folder)[-1]
        assert (secret.what, secret.reason) == ("a file without read permission", "Permission denied")
        with pytest.raises(PermissionError) as raised:
            worker.checksum(secret.path)
        assert worker.reason(raised.value) == secret.reason
    finally:
        os.seteuid(before)
        shutil.rmtree(folder)


def test_the_worker_does_not_wait_for_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="not a regular file"):
        worker.checksum(os.fsencode(tmp_path / "pipe"))


def test_a_path_with_a_nul_byte_is_a_failure_with_a_reason() -> None:
    with pytest.raises(ValueError, match="null") as raised:
        worker.checksum(b"a\0b")
    assert "null" in worker.reason(raised.value)


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    results = worker.Results(str(tmp_path / "results"))
    path = b"/odd \n\xff%20"
    results.add(hashlib.sha256(b"").hexdigest(), "item-1", path)
    results.add("bb", "item-2", B)
    found = accounting.read_results(tmp_path / "results")
    assert [(one.item_id, one.path) for one in found] == [("item-1", path), ("item-2", B)]
    assert accounting.read_results(tmp_path / "none") == []


def test_results_of_several_workers_never_overwrite_each_other(tmp_path: Path) -> None:
    one, two = (worker.Results(str(tmp_path / "results")) for _ in range(2))
    for number in range(3):
        one.add("aa", f"one-{number}", A)
        two.add("bb", f"two-{number}", B)
    assert len(accounting.read_results(tmp_path / "results")) == 6
