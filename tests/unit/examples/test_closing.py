"""The demo on a cluster tells the truth at its end: whatever is not as it should be is said, and its exit code is 1."""

from collections.abc import Callable

import pytest

from testkit.examples import load

accounting, closing = load("accounting"), load("closing")

FILES, UNREADABLE, LIMIT = 2000, 5, 3
VERDICT = "All accounted for: nothing lost, nothing made up, nothing wrong."


class Run:
    """What a run of the demo brought home; a good one until somebody changes it."""

    def __init__(self) -> None:
        self.enqueued = {f"id-{at}": f"/file {at}".encode() for at in range(FILES + UNREADABLE)}
        readable = list(self.enqueued.items())[:FILES]
        self.sums = {path: f"sum of {item_id}" for item_id, path in readable}
        self.results = [accounting.Result(self.sums[path], item_id, path) for item_id, path in readable]
        self.failed = {
            item_id: accounting.FailedFile(path, "Permission denied", LIMIT)
            for item_id, path in list(self.enqueued.items())[FILES:]
        }
        self.killed = "checksums-worker-1"
        self.done = FILES

    def end(self) -> tuple[list[str], int]:
        story = closing.Story(self.enqueued, most_workers=4, killed=self.killed, moments={"all done": 12.34})
        found = accounting.account(self.enqueued, self.results, self.failed, self.sums, LIMIT)
        lines, code = closing.closing(story, found, self.done)
        return lines, code


def forge(run: Run) -> None:
    run.results[7] = accounting.Result("another sum", run.results[7].item_id, run.results[7].path)


def lose(run: Run) -> None:
    del run.results[7]


def make_up(run: Run) -> None:
    run.results.append(accounting.Result("sum", "id-of-nobody", b"/file of nobody"))


def work_on_another_file(run: Run) -> None:
    run.results[7] = accounting.Result(run.results[8].checksum, run.results[7].item_id, run.results[8].path)


def give_up_what_can_be_read(run: Run) -> None:
    result = run.results.pop(7)
    run.failed[result.item_id] = accounting.FailedFile(result.path, "crash", LIMIT)


def lose_a_failed_one(run: Run) -> None:
    del run.failed[f"id-{FILES}"]


def fail_without_a_reason(run: Run) -> None:
    run.failed[f"id-{FILES}"] = accounting.FailedFile(run.enqueued[f"id-{FILES}"], "", LIMIT)


def kill_nobody(run: Run) -> None:
    run.killed = ""


def count_too_many(run: Run) -> None:
    run.done += 1


def lose_all(run: Run) -> None:
    run.results.clear()


def test_a_good_run_says_what_is_right_and_what_failed_and_ends_with_0() -> None:
    run = Run()
    run.results.append(run.results[0])  # a result written twice is no mistake, and is told
    lines, code = run.end()
    assert code == 0
    assert lines == [
        "right      2,000 checksums, each as sha256sum says",
        "failed     5, each unreadable, with its reason",
        "repeats    1 results written again after the kill, folded by item id",
        "killed     checksums-worker-1",
        "workers    0 -> 4 -> 0",
        "times      all done 12.3 s",
        VERDICT,
    ]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (forge, "wrong: b'/file 7' is sum of id-7, the worker says another sum"),
        (lose, "lost: b'/file 7'"),
        (make_up, "made up: a result for b'/file of nobody' as item id-of-nobody"),
        (work_on_another_file, "made up: a result for b'/file 8' as item id-7"),
        (give_up_what_can_be_read, "failed, and sha256sum can read it: b'/file 7' (crash)"),
        (lose_a_failed_one, "lost: b'/file 2000'"),
        (fail_without_a_reason, "failed without a reason: b'/file 2000'"),
        (kill_nobody, "no pod was killed"),
        (count_too_many, "2001 items done, but 2000 right results"),
    ],
)
def test_a_run_that_was_tampered_with_says_so_and_ends_with_1(
    tamper: Callable[[Run], None], words: str
) -> None:
    run = Run()
    tamper(run)
    lines, code = run.end()
    assert code == 1
    assert lines[-1] == "FAILED"
    assert VERDICT not in lines
    assert any(line.startswith(f"MISTAKE    {words}") for line in lines), lines


def test_of_very_many_mistakes_some_are_shown_and_all_are_counted() -> None:
    run = Run()
    lose_all(run)
    lines, code = run.end()
    shown = [line for line in lines if line.startswith("MISTAKE")]
    assert len(shown) == closing.SHOWN_MISTAKES
    # Each file is lost; and that many items are done without a result is one more.
    assert lines[-2:] == [f"and {FILES + 1 - closing.SHOWN_MISTAKES} mistakes more", "FAILED"]
    assert code == 1
