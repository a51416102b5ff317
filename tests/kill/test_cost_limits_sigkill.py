"""Workers under limits by cost, and of keys, die by SIGKILL at random points, and the server does; its own record shows
that no limit was exceeded, and that each item ended once.
"""

import random
import subprocess
import sys
import time
from collections.abc import Iterator

import claimq.blocking
from claimq import Limit, NewItem, Policy, RetryDelay
from testkit.checkers.starts import Starts, fullest, starts_of
from testkit.plugin import ServerFactory
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE
from testkit.workers.killed_programs import SEED

ITEMS, WORKERS, KILLS, KEYS = 300, 3, 15, 5
SERVER_DIES = 7
"""At every so many kills."""
RATES = (
    Limit("all", rate="150/s", burst=30, unit="cost"),
    Limit("of-client", rate="80/s", burst=18, per="client", unit="cost"),
    Limit("of-key", rate="60/s", burst=12, per="key", unit="cost"),
)
BUSY = Limit("slots", busy=2, per="key")
PROGRAM = f"""
import random, sys
import claimq.blocking
url, name, seed = sys.argv[1:]
chance, waits = random.Random(int(seed)), {PATIENCE}
settings = claimq.RedisSettings(url, retry_for=waits, reply_timeout=waits, connect_timeout=waits)
with claimq.blocking.connect(settings=settings) as server:
    queue = server.queue("q", worker=name)
    while True:
        for claim in queue.claim(chance.randint(1, 6), wait=0.2):
            match chance.randrange(12):
                case 0: queue.fail(claim, "no")
                case 1: queue.later(claim, 0.02)
                case 2: queue.requeue(claim)
                case 3 | 4: queue.unclaim(claim)
                case _: queue.done(claim)
"""


def items(chance: random.Random) -> Iterator[NewItem]:
    """The first ten cost as much as may start at once."""
    for number in range(ITEMS):
        cost = 3 if number < 10 else chance.choice((1, 1, 2, 5, 9))
        client = (None, "a", "b")[number % 3]
        yield NewItem("x", id=f"{number}", key=f"k{number % KEYS}", client=client, cost=cost)


class Workers:
    """Those that run."""

    def __init__(self, server: Server, chance: random.Random) -> None:
        self.server, self.chance = server, chance
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.count = 0

    def start(self) -> None:
        self.count += 1
        words = [PROGRAM, self.server.url, name := f"w{self.count}", f"{self.chance.randrange(10**6)}"]
        self.running[name] = subprocess.Popen([sys.executable, "-c", *words])

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.wait()


def drain(server: Server, queue: claimq.blocking.BlockingQueue, chance: random.Random) -> None:
    """Workers take all items of the queue, and are killed."""
    workers, kills, deadline = Workers(server, chance), 0, time.monotonic() + 4 * PATIENCE
    try:
        for _ in range(WORKERS):
            workers.start()
        while any(queue.lengths().values()):
            assert time.monotonic() < deadline, (SEED, queue.lengths())
            time.sleep(chance.uniform(0.05, 0.3))
            if kills < KILLS:
                kills += 1
                workers.kill(victim := chance.choice([*workers.running]))
                queue.release_worker(victim)
                workers.start()
                if kills % SERVER_DIES == 0:
                    server.kill9()
                    server.start()
    finally:
        for name in [*workers.running]:
            workers.kill(name)


def check_starts(starts: Starts) -> None:
    """No limit was exceeded, those of which this is sure were reached, and each item has ended once."""
    fullest_windows = {
        limit.name: max(fullest(instants, limit) for instants in starts.by_cost(str(limit.per)).values())
        for limit in RATES
    }
    print(f"seed {SEED}: {len(starts.starts)} starts, {starts.given_back} given back, {fullest_windows}")
    assert all(fullest_windows[limit.name] <= (limit.burst or 1) for limit in RATES), (SEED, fullest_windows)
    assert (fullest_windows["all"], starts.most_of_key) == (RATES[0].burst, BUSY.busy), SEED
    assert starts.given_back, SEED
    assert dict(starts.ended) == {f"{number}": 1 for number in range(ITEMS)}, SEED


def test_no_limit_by_cost_or_of_keys_is_exceeded_while_workers_are_killed(
    start_server: ServerFactory,
) -> None:
    chance, server = random.Random(SEED), start_server(options=dict(DURABLE))
    policy = Policy(
        limits=[*RATES, BUSY], requeue_limit=1000, busy_expiry=20, retry_delay=RetryDelay(0.02, 1, 0.02)
    )
    with open_blocking_queue(server.url, worker="first") as queue:
        queue.set_policy(policy)
        new = [*items(chance)]
        queue.enqueue_many(new[:10])
        assert len(queue.claim(20, wait=0)) == 10
        queue.enqueue_many(new[10:])
        queue.release_worker("first")
        drain(server, queue, chance)
        stats = queue.stats()
    server.stop()
    check_starts(starts_of(server.dir, "q"))
    assert (stats["enqueued"], stats["done"], stats["failed"]) == (ITEMS, ITEMS, 0), SEED
