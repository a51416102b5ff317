"""The summary of the demo on a cluster names every mistake, and its exit code is 1 then."""

from collections.abc import Callable

import pytest

from testkit.programs.examples import load

accounting, summary = load("accounting"), load("summary")

FILES, UNREADABLE, LIMIT = 2000, 5, 3
VERDICT = "All accounted for: no result is missing, invented or wrong."


class Run:
    """The results of a run of the demo; correct until a test changes them."""

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
        story = summary.Story(self.enqueued, most_workers=4, killed=self.killed, moments={"all done": 12.34})
        found = accounting.account(self.enqueued, self.results, self.failed, self.sums, LIMIT)
        lines, code = summary.summary(story, found, self.done)
        return lines, code


def forge(run: Run) -> None:
    run.results[7] = accounting.Result("another sum", run.results[7].item_id, run.results[7].path)


def lose(run: Run) -> None:
    del run.results[7]


def invent(run: Run) -> None:
    run.results.append(accounting.Result("sum", "id-unknown", b"/file unknown"))


def work_on_another_file(run: Run) -> None:
    run.results[7] = accounting.Result(run.results[8].checksum, run.results[7].item_id, run.results[8].path)


def give_up_what_can_be_read(run: Run) -> None:
    result = run.results.pop(7)
    run.failed[result.item_id] = accounting.FailedFile(result.path, "crash", LIMIT)


def lose_a_failed_one(run: Run) -> None:
    del run.failed[f"id-{FILES}"]


def fail_without_a_reason(run: Run) -> None:
    run.failed[f"id-{FILES}"] = accounting.FailedFile(run.enqueued[f"id-{FILES}"], "", LIMIT)


def kill_no_pod(run: Run) -> None:
    run.killed = ""


def count_too_many(run: Run) -> None:
    run.done += 1


def lose_all(run: Run) -> None:
    run.results.clear()


def test_a_correct_run_lists_its_results_and_exits_with_0() -> None:
    run = Run()
    run.results.append(run.results[0])  # a result written twice is not a mistake, and is counted
    lines, code = run.end()
    assert code == 0
    assert lines == [
        "correct    2,000 checksums, equal to those of sha256sum",
        "failed     5, each unreadable, with its reason",
        "repeats    1 results written again after the kill, counted once by item id",
        "killed     checksums-worker-1",
        "workers    0 -> 4 -> 0",
        "times      all done 12.3 s",
        VERDICT,
    ]


@pytest.mark.parametrize(
    ("tamper", "words"),
    [
        (forge, "wrong: b'/file 7' has sum of id-7, the result has another sum"),
        (lose, "lost: b'/file 7'"),
        (invent, "invented: a result for b'/file unknown' as item id-unknown"),
        (work_on_another_file, "invented: a result for b'/file 8' as item id-7"),
        (give_up_what_can_be_read, "failed, but sha256sum can read it: b'/file 7' (crash)"),
        (lose_a_failed_one, "lost: b'/file 2000'"),
        (fail_without_a_reason, "failed without a reason: b'/file 2000'"),
        (kill_no_pod, "no pod was killed"),
        (count_too_many, "2001 items done, but 2000 correct results"),
    ],
)
def test_each_mistake_is_listed_and_the_exit_code_is_1(tamper: Callable[[Run], None], words: str) -> None:
    run = Run()
    tamper(run)
    lines, code = run.end()
    assert code == 1
    assert lines[-1] == "FAILED"
    assert VERDICT not in lines
    assert any(line.startswith(f"MISTAKE    {words}") for line in lines), lines


def test_some_of_many_mistakes_are_listed_and_all_are_counted() -> None:
    run = Run()
    lose_all(run)
    lines, code = run.end()
    shown = [line for line in lines if line.startswith("MISTAKE")]
    assert len(shown) == summary.SHOWN_MISTAKES
    # Each file is lost; and that many items are done without a result is one more.
    assert lines[-2:] == [f"and {FILES + 1 - summary.SHOWN_MISTAKES} more mistakes", "FAILED"]
    assert code == 1
