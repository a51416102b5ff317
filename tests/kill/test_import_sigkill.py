"""`claimq import` dies by SIGKILL at random points and runs again until it is finished; every entry arrives once."""

import random
from pathlib import Path

from testkit.plugin import ServerFactory
from testkit.programs.forked import ForkedProcess
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE
from testkit.workers.killed_programs import SEED

ENTRIES, KILLS = 12_000, 8


def length(server: Server) -> int:
    found = server.call("LLEN", "cq:{q}:main")
    assert isinstance(found, int)
    return found


def test_an_import_killed_at_random_points_loses_and_doubles_nothing(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    chance = random.Random(SEED)
    server = start_server("valkey", dict(DURABLE))
    for first in range(0, ENTRIES, 1000):
        server.call("LPUSH", "old", *(f"{number // 2}" for number in range(first, first + 1000)))
    words = ["import", "q", "--redis", server.url, "--from", "list:old"]
    kills = 0
    for number in range(KILLS):
        until = ENTRIES * number // KILLS + chance.randrange(ENTRIES // KILLS)
        process = ForkedProcess("claimq_cli", *words, log=tmp_path / "log", env={})
        while process.is_running and length(server) <= until:
            pass
        kills += process.is_running
        process.kill9()
    last = ForkedProcess("claimq_cli", *words, log=tmp_path / "log", env={})
    assert last.wait(PATIENCE) == 0, (tmp_path / "log").read_text()[-2000:]
    assert kills >= KILLS // 2, f"seed {SEED}"
    with open_blocking_queue(server.url) as queue:
        found = [
            one.item
            for offset in range(0, ENTRIES + 1000, 1000)
            for one in queue.items("main", 1000, offset=offset)
        ]
    assert [item.text for item in found] == [f"{number // 2}" for number in range(ENTRIES)], f"seed {SEED}"
    assert len({item.id for item in found}) == ENTRIES
    assert server.call("KEYS", "*old*") == [b"{old}:claimq-import:source"]
