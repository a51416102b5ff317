"""`claimq export --remove` dies by SIGKILL at random points and runs again; every item is in one of the files."""

import json
import random
from pathlib import Path

from claimq.model import Reason
from testkit.plugin import ServerFactory
from testkit.programs.forked import ForkedProcess
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE
from testkit.waiting import PATIENCE
from testkit.workers.killed_programs import SEED

ITEMS, KILLS, PORTION = 3000, 5, 100


def payloads(files: list[Path]) -> list[str]:
    """Those of all complete lines of the files; the last line of an export that was killed may be cut."""
    lines = [line for file in files if file.exists() for line in file.read_text().splitlines(keepends=True)]
    return [json.loads(line)["payload"] for line in lines if line.endswith("\n")]


def test_an_export_killed_at_random_points_loses_nothing(start_server: ServerFactory, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    server = start_server("valkey", dict(DURABLE))
    files = [tmp_path / f"{number}.jsonl" for number in range(KILLS + 1)]
    words = ["export", "q", "--redis", server.url, "--remove", "--to"]
    with open_blocking_queue(server.url) as queue:
        queue.enqueue_many([str(number) for number in range(ITEMS)])
        for number in range(KILLS):
            until = ITEMS * number // KILLS + chance.randrange(ITEMS // KILLS)
            process = ForkedProcess("claimq_cli", *words, str(files[number]), log=tmp_path / "log", env={})
            while process.is_running and len(payloads(files)) <= until:
                pass
            process.kill9()
            for worker in queue.workers():  # otherwise its last portion returns when the lease ends
                queue.release_worker(worker.worker, Reason.INTERRUPTED)
        last = ForkedProcess("claimq_cli", *words, str(files[-1]), log=tmp_path / "log", env={})
        assert last.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-2000:]
        assert not any(queue.lengths().values())
    found = payloads(files)
    assert set(found) == {str(number) for number in range(ITEMS)}, f"seed {SEED}"
    assert len(found) - ITEMS <= KILLS * PORTION, (
        f"seed {SEED}: only the last portion of each run may come twice"
    )
