"""An app with quick loops over ``worker.items()`` dies by SIGKILL again and again: crash counts are exact.

CLAIMQ_KILL_SEED repeats a run's choices (not its timing).
"""

import os
import secrets
import sys
from collections import Counter
from pathlib import Path

import claimq.blocking
from claimq.blocking import BlockingQueue
from claimq.policy import Policy
from testkit.processes import Process
from testkit.server import Server
from testkit.sidecars import Sidecar
from testkit.waiting import eventually_sync

SEED = int(os.environ.get("CLAIMQ_KILL_SEED", "0")) or secrets.randbelow(10**6) + 1
ITEMS = 1000
KILLS = 12
APP = """
import os, random, signal, sys, threading
import claimq.worker, claimq.worker.loop
from claimq.consuming.engine import chunk_size
claimq.worker.loop._QUICK_SECONDS = claimq.worker.loop._SHORT_SECONDS = chunk_size.AHEAD_SECONDS = 1e9
random.seed(int(sys.argv[1]))
left = random.randrange(200) if sys.argv[2] == "dies" else 1e9

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


def test_a_crash_is_counted_for_each_kill_of_an_app_and_for_no_item_ahead(
    valkey: Server, tmp_path: Path
) -> None:
    with claimq.blocking.connect(valkey.url) as server, Sidecar(valkey.url) as sidecar:
        queue = server.queue("q")
        queue.set_policy(Policy(requeue_limit=1000))
        kill_again_and_again(queue, sidecar, tmp_path)


def kill_again_and_again(queue: BlockingQueue, sidecar: Sidecar, tmp_path: Path) -> None:
    queue.enqueue_many(str(number) for number in range(ITEMS))
    begun: Counter[str] = Counter()
    for number in range(KILLS + 1):
        is_last = number == KILLS
        log = tmp_path / f"log-{number}"
        words = [str(SEED + number), "lives" if is_last else "dies", str(1 + number % 3)]
        app = Process(
            [sys.executable, "-c", APP, *words], log=log, env={"CLAIMQ_SOCKET": str(sidecar.socket)}
        )
        if is_last:
            eventually_sync(lambda: sum(queue.lengths().values()) == 0)
            app.kill9()
        else:
            app.wait()
        for line in log.read_text().splitlines():
            text, crash_count = line.split()
            assert int(crash_count) <= begun[text], (SEED, number, line)
            begun[text] += 1
        eventually_sync(lambda: sidecar.info["sessions"] == 0)
    assert set(begun) == {str(number) for number in range(ITEMS)}, SEED
    assert sidecar.metric('claimq_sidecar_given_back_items_total{cause="not_reached"}') > KILLS
    assert sidecar.metric('claimq_sidecar_given_back_items_total{cause="crashed"}') >= KILLS
