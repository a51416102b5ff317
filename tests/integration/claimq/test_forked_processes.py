"""Processes that fork after connecting work on connections of their own."""

import asyncio
import subprocess
import sys

import pytest

from claimq import ReliableQueue, State
from testkit.servers.contents import contents
from testkit.servers.server import Server
from testkit.waiting import PATIENCE

FORKS = """
import asyncio, ctypes, os, sys, claimq
settings = claimq.RedisSettings(sys.argv[1], reply_timeout=300, retry_for=300)
server = claimq.connect(settings=settings)  # at import time, as a program that forks its workers later may do
queue = server.queue("q", worker="w")

async def enqueue_three():
    for _ in range(3):
        print((await queue.enqueue("a")).id, (await queue.enqueue("b", delay=60)).id, flush=True)

for _ in range(3):
    child = FORK()
    if child == 0:
        asyncio.run(enqueue_three())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""

CLOSES = """
import asyncio, ctypes, os, sys, claimq
server = claimq.connect(settings=claimq.RedisSettings(sys.argv[1], reply_timeout=300, retry_for=300))

async def enqueue_and_fork():
    await server.queue("q", worker="w").enqueue("a")
    child = FORK()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        await server.queue("q", worker="w").enqueue("b")
        os._exit(0)

asyncio.run(enqueue_and_fork())
asyncio.run(server.close())
"""


@pytest.mark.parametrize("fork", ["os.fork", "ctypes.PyDLL(None).fork"])
async def test_processes_forked_after_connecting_enqueue_items_of_their_own(
    valkey: Server, queue: ReliableQueue, fork: str
) -> None:
    """Also after a fork that runs no hooks of Python, such as uWSGI's."""
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", FORKS.replace("FORK", fork), valkey.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )

    assert ended.returncode == 0, ended.stderr
    ids = ended.stdout.split()
    assert len(set(ids)) == 18
    lengths = await queue.lengths()
    assert (lengths[State.MAIN], lengths[State.DELAYED]) == (9, 9)


@pytest.mark.parametrize("fork", ["os.fork", "ctypes.PyDLL(None).fork"])
def test_a_child_that_closes_leaves_the_replies_that_are_kept_for_its_parent(
    valkey: Server, fork: str
) -> None:
    program = CLOSES.replace("FORK", fork)
    ended = subprocess.run(
        [sys.executable, "-c", program, valkey.url],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert valkey.call("LLEN", "cq:{q}:main") == 2
    kept = [key for key in contents(valkey) if ":calls:" in key]
    assert len(kept) == 1
