"""An app with quick loops over ``worker.items()``, or its sidecar, dies by SIGKILL again and again: no crash counts for
an item that no loop has begun.

CLAIMQ_KILL_SEED repeats a run's choices (not its timing).
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import claimq
import claimq.worker
from claimq.blocking import BlockingQueue
from claimq.model import State
from claimq.policy import Policy
from claimq.worker import Item
from testkit.programs.processes import Process
from testkit.queues.looking import is_empty
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.killed_programs import SEED
from testkit.workers.sidecars import Sidecar

KILLS, MOST_BEGUN = 12, 200
ITEMS = (KILLS + 1) * MOST_BEGUN
APP = """
import os, random, signal, sys, threading
import claimq.worker, claimq.worker.loops.loop
from claimq.consuming.engine import chunk_size
claimq.worker.loops.loop._QUICK_SECONDS = 1e9
claimq.worker.loops.loop._SHORT_SECONDS = chunk_size.AHEAD_SECONDS = 1e9
random.seed(int(sys.argv[1]))
left = random.randrange(int(sys.argv[4])) if sys.argv[2] == "dies" else 1e9

def run(worker):
    global left
    for item in worker.items(handle_signals=False):
        with item:
            os.write(1, f"{item.text} {item.crash_count}\\n".encode())
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

with claimq.worker.connect() as worker:
    threads = [threading.Thread(target=run, args=(worker,)) for _ in range(int(sys.argv[3]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.fixture
def queue(valkey: Server) -> Iterator[BlockingQueue]:
    with open_blocking_queue(valkey.url) as queue:
        queue.set_policy(Policy(requeue_limit=1000))
        queue.enqueue_many(str(number) for number in range(ITEMS))
        yield queue


@pytest.fixture
def sidecar(valkey: Server) -> Iterator[Sidecar]:
    with Sidecar(valkey.url) as made:
        yield made


def test_a_kill_of_an_app_counts_for_no_item_that_it_has_not_begun(
    queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path
) -> None:
    begun: Counter[str] = Counter()
    surplus: Counter[str] = Counter()
    between = 0
    for number in range(KILLS + 1):
        is_last, loops = number == KILLS, 1 + number % 3
        log = tmp_path / f"log-{number}"
        words = [str(SEED + number), "lives" if is_last else "dies", str(loops), str(MOST_BEGUN)]
        app = Process(
            [sys.executable, "-c", APP, *words], log=log, env={"CLAIMQ_SOCKET": str(sidecar.socket)}
        )
        if is_last:
            eventually_sync(lambda: is_empty(queue))
            app.kill9()
        else:
            app.wait()
        for line in log.read_text().splitlines():
            text, crash_count = line.split()
            surplus[text] = max(surplus[text], int(crash_count) - begun[text])
            assert loops > 1 or between or not +surplus, (SEED, number, line)
            begun[text] += 1
        between += loops - 1
        eventually_sync(lambda: sidecar.info["sessions"] == 0)
    assert set(begun) == {str(number) for number in range(ITEMS)}, SEED
    # Each of the other loops may have taken an item and not have written it down when the app died.
    assert (+surplus).total() <= between, (SEED, +surplus)
    assert sidecar.metric('claimq_sidecar_given_back_items_total{cause="not_reached"}') > KILLS
    assert sidecar.metric('claimq_sidecar_given_back_items_total{cause="crashed"}') >= KILLS


def test_a_kill_of_the_sidecar_counts_for_no_item(
    queue: BlockingQueue, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "worker.loops.loop._QUICK_SECONDS",
        "worker.loops.loop._SHORT_SECONDS",
        "consuming.engine.chunk_size.AHEAD_SECONDS",
    ):
        monkeypatch.setattr(f"claimq.{name}", 1e9)
    seen: Counter[str] = Counter()
    counts: Counter[tuple[int, ...]] = Counter()
    ahead: list[int] = []
    before: list[Item] = []
    with claimq.worker.connect(sidecar.socket) as worker:
        for item in worker.items(wait=0):
            with item:
                counts[item.crash_count, item.requeue_count] += 1
                seen[item.text] += 1
                if len(seen) % MOST_BEGUN == MOST_BEGUN // 2:
                    eventually_sync(lambda: before[-1].outcome is not None, why="no request is in flight")
                    ahead.append(queue.length(State.BUSY) - 1)
                    sidecar.kill9()
                    sidecar.start()
            before.append(item)
            if len(seen) == ITEMS:
                break
    assert seen == Counter(str(number) for number in range(ITEMS))
    assert counts == {(0, 0): ITEMS}
    assert max(ahead) > 0
    assert is_empty(queue)
