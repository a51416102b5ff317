"""Workers of a queue with strict order of keys die by SIGKILL at random points; no item overtakes one of its key."""

import random
import subprocess
import sys
import time

import redis

from claimq import KeyOrder, NewItem, Policy, RetryDelay
from testkit.servers.patient import open_blocking_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE
from testkit.workers.killed_programs import SEED

KEYS, ITEMS, WORKERS, KILLS = 5, 40, 3, 15
PROGRAM = """
import random, sys
import claimq.blocking, redis
url, name, seed = sys.argv[1:]
chance, log = random.Random(int(seed)), redis.Redis.from_url(url)
with claimq.blocking.connect(url) as server:
    queue = server.queue("q", worker=name)
    while True:
        for claim in queue.claim(chance.randint(1, 4), wait=0.2):
            log.rpush("starts", claim.item.text)
            match chance.randrange(6):
                case 0: queue.fail(claim, "no")
                case 1: queue.later(claim, 0.02)
                case 2: queue.requeue(claim)
                case 3: queue.unclaim(claim)
                case _: queue.done(claim)
"""


def test_no_item_overtakes_one_of_its_key_while_workers_are_killed(valkey: Server) -> None:
    chance = random.Random(SEED)
    policy = Policy(
        key_order=KeyOrder.STRICT, requeue_limit=1000, busy_expiry=60.0, retry_delay=RetryDelay(0.02, 1, 0.02)
    )
    with open_blocking_queue(valkey.url) as queue:
        queue.set_policy(policy)
        queue.enqueue_many(
            NewItem(f"{key} {number}", key=f"{key}") for number in range(ITEMS) for key in range(KEYS)
        )
        workers = [_start(valkey, f"w{number}", chance) for number in range(WORKERS)]
        kills, deadline = 0, time.monotonic() + 4 * PATIENCE
        try:
            while any(queue.lengths().values()):
                assert time.monotonic() < deadline, (SEED, queue.lengths())
                time.sleep(chance.uniform(0.05, 0.3))
                if kills < KILLS:
                    kills += 1
                    victim = chance.randrange(WORKERS)
                    workers[victim].kill()
                    workers[victim].wait()
                    workers[victim] = _start(valkey, f"k{kills}", chance)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        done = queue.stats()["done"]
    with redis.Redis.from_url(valkey.url, decode_responses=True) as client:
        starts = [str(text) for text in client.lrange("starts", 0, -1)]
    numbers = {
        f"{key}": [int(text.split()[1]) for text in starts if text.startswith(f"{key} ")]
        for key in range(KEYS)
    }
    assert {key: order == sorted(order) for key, order in numbers.items()} == dict.fromkeys(numbers, True), (
        SEED
    )
    assert done == KEYS * ITEMS


def _start(server: Server, name: str, chance: random.Random) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, server.url, name, f"{chance.randrange(10**6)}"])
