"""`claimq export --remove` dies by SIGKILL at random points and runs again; every item is in the list."""

import os
import random
import secrets
from collections import Counter
from pathlib import Path

import claimq.blocking
from claimq.model import Reason
from testkit.forked import ForkedProcess
from testkit.patient import patient
from testkit.plugin import ServerFactory
from testkit.server import DURABLE, Server
from testkit.waiting import PATIENCE

SEED = int(os.environ.get("CLAIMQ_KILL_SEED", "0")) or secrets.randbelow(10**6) + 1
ITEMS, KILLS, PORTION = 3000, 5, 100


def length(server: Server) -> int:
    found = server.call("LLEN", "old")
    assert isinstance(found, int)
    return found


def test_an_export_killed_at_random_points_loses_nothing(start_server: ServerFactory, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    server = start_server("valkey", dict(DURABLE))
    words = ["export", "q", "--redis", server.url, "--to", "list:old", "--remove"]
    with claimq.blocking.connect(settings=patient(server.url)) as store:
        queue = store.queue("q")
        queue.enqueue_many([str(number) for number in range(ITEMS)])
        for number in range(KILLS):
            until = ITEMS * number // KILLS + chance.randrange(ITEMS // KILLS)
            process = ForkedProcess("claimq_cli", *words, log=tmp_path / "log", env={})
            while process.is_running and length(server) <= until:
                pass
            process.kill9()
            for worker in queue.workers():  # otherwise its last portion returns when the lease ends
                queue.release_worker(worker.worker, Reason.INTERRUPTED)
        last = ForkedProcess("claimq_cli", *words, log=tmp_path / "log", env={})
        assert last.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-2000:]
        assert not any(queue.lengths().values())
    found = server.call("LRANGE", "old", 0, -1)
    assert isinstance(found, list)
    times = Counter(found)
    assert set(times) == {str(number).encode() for number in range(ITEMS)}, f"seed {SEED}"
    assert len(found) - ITEMS <= KILLS * PORTION, (
        f"seed {SEED}: only the last portion of each run may come twice"
    )
