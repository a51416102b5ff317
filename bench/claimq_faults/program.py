"""What `make faults` does: runs the cases one after the other and prints the table."""

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import claimq.blocking
from claimq import State
from claimq.blocking import BlockingQueue
from claimq_faults.account import Account, account
from claimq_faults.cases import QUICK, Case, cases
from claimq_faults.faults import FAULTS
from claimq_faults.load import QUEUE
from claimq_faults.processes import Processes
from testkit.programs.places import new_directory, remove_left_behind
from testkit.servers.binaries import ServerMissing
from testkit.servers.patient import patient
from testkit.waiting import eventually_sync

ROUNDS = 2
"""Faults in one case."""
_ITEMS = 150
"""That are stored and done before a fault and after it."""
_BACKLOG = 300
"""Items that wait when the workers begin, so that a loss of the last writes loses some that no worker has seen."""
_PATIENCE = 120.0
HEADER = (
    "server", "servers", "appendfsync", "durability", "fault", "stored", "lost", "repeated", "overlapping",
    "out of order", "left", "seconds", "verdict",
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One row of the table. ``problem``: why the run could not be finished, if so."""

    case: Case
    account: Account
    seconds: float
    problem: str = ""

    @property
    def is_kept(self) -> bool:
        return not self.problem and not self.case.broken(self.account)

    def cells(self) -> tuple[str, ...]:
        one = self.account
        numbers = (one.stored, one.lost, one.repeated, one.overlapping, one.out_of_order, one.left)
        return (
            *self.case.cells(),
            *(f"{number:,}" for number in numbers),
            f"{self.seconds:.0f}",
            self._verdict(),
        )

    def _verdict(self) -> str:
        if self.problem:
            return f"BROKEN: {self.problem}"
        if broken := self.case.broken(self.account):
            return f"BROKEN: {', '.join(broken)}"
        may = sorted(self.case.allowed())
        return f"kept (may be {', '.join(may)})" if may else "kept"


def run(case: Case, rounds: int) -> Result:
    began_at, place, problem = time.monotonic(), new_directory(), ""
    backlog, more = (_BACKLOG // 20, _ITEMS // 20) if case.is_slow else (_BACKLOG, _ITEMS)
    with case.servers() as servers, claimq.blocking.connect(settings=patient(servers.url)) as store:
        queue: BlockingQueue = store.queue(QUEUE)
        queue.set_policy(case.policy())
        with closing(Processes(servers.url, place)) as processes:
            try:
                processes.wait_for_more(backlog, _PATIENCE, of=["stored"])
                processes.start_workers()
                for _ in range(rounds):
                    processes.wait_for_more(more, _PATIENCE)
                    FAULTS[case.fault](servers, processes)
                processes.wait_for_more(more, _PATIENCE)
                processes.stop_producer()
                eventually_sync(
                    lambda: sum(queue.lengths().values()) == 0, within=_PATIENCE, why="all are handled"
                )
                processes.stop_workers()
            except (AssertionError, RuntimeError, TimeoutError) as error:
                problem = " ".join(str(error).split())[:200]
                processes.close()  # nothing may change while the items are counted
            found = account(processes.lines(), remaining(queue), processes.ended_at)
    shutil.rmtree(place, ignore_errors=True)
    return Result(case, found, time.monotonic() - began_at, problem)


def remaining(queue: BlockingQueue) -> list[str]:
    """The ids of all items in the queue."""
    return [one.item.id for state in State for one in queue.items(state, 5000)]


def chosen(words: Sequence[str], *, quick: bool) -> list[Case]:
    """The cases whose cells contain all these words."""
    rows = QUICK if quick else tuple(cases())
    return [case for case in rows if all(word.lower() in " | ".join(case.cells()).lower() for word in words)]


def line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run a few rows only")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="faults in each row")
    parser.add_argument("words", nargs="*", help="run only rows that contain all of these")
    options = parser.parse_args(words)
    remove_left_behind()
    rows = chosen(options.words, quick=options.quick)
    if not rows:
        parser.error("no row contains all of these words; see bench/faults.md for the rows")
    print(line(HEADER), line(["---"] * len(HEADER)), sep="\n")
    broken = 0
    for case in rows:
        try:
            result = run(case, options.rounds)
        except ServerMissing as error:
            print(line((*case.cells(), f"not run: {error}")))
            broken += 1
            continue
        broken += not result.is_kept
        print(line(result.cells()), flush=True)
    print(f"{len(rows)} rows, {broken} broken or not run", file=sys.stderr)
    return int(broken > 0)
