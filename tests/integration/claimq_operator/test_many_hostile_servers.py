"""Servers that tenants control cannot fill the operator's memory together, nor delay the queue of another tenant."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import claimq
from claimq_kubernetes.port import QUEUES
from testkit.hostile_server import NOW, PAGE, STALLED, Answer, hostile_server
from testkit.operator_in_memory import MemoryApi, conditions, operator, queue_body
from testkit.operator_memory import limit_of_the_chart
from testkit.server import Server
from testkit.tree import ROOT
from testkit.waiting import PATIENCE, eventually

SERVERS = 200
PAGES = 8
ROW: list[Any] = ["x" * 800, str(NOW), 1]


class HostileServers:
    """Each answers with large pages of workers, and stalls after some."""

    def __init__(self) -> None:
        self.asked = [0] * SERVERS

    def answers(self, number: int) -> dict[str, Answer]:
        def workers(_: list[bytes]) -> Any:
            self.asked[number] += 1
            return ROW * PAGE if self.asked[number] % PAGES else STALLED

        return {"workers": workers}


async def test_many_hostile_servers_leave_the_operator_below_half_its_limit(valkey: Server) -> None:
    servers = HostileServers()
    async with AsyncExitStack() as stack:
        urls = [
            await stack.enter_async_context(hostile_server(servers.answers(number)))
            for number in range(SERVERS)
        ]
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "testkit.operator_memory", *urls, valkey.url,
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests" / "support")},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert program.stdin is not None
            assert program.stdout is not None
            async with asyncio.timeout(PATIENCE):
                assert await program.stdout.readline() == b"reached\n"
                await eventually(
                    lambda: all(servers.asked) and sum(one >= PAGES for one in servers.asked) >= 4
                )
                program.stdin.close()
                peak = int(await program.stdout.readline())
        finally:
            if program.returncode is None:
                program.kill()
            await program.wait()
    assert peak < limit_of_the_chart() / 2


async def test_a_queue_with_thousands_of_workers_is_served(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with claimq.connect(valkey.url) as store:
        await store.queue("media.thumbs").enqueue("x")
        await store.queue("media.thumbs", worker="w").claim(wait=0)
        seen_at = round(1000 * (await store.queue("media.thumbs").snapshot()).now)
    words: list[Any] = [word for number in range(3000) for word in (seen_at, f"worker-{number:050d}")]
    valkey.call("ZADD", "cq:{media.thumbs}:workers", *words)
    async with operator(api, tmp_path) as context:
        context.cache.update_queue(await api.create(QUEUES, queue_body(valkey)))
        await eventually(lambda: "RedisReachable" in conditions(api))
        assert conditions(api)["RedisReachable"].startswith("True ")
