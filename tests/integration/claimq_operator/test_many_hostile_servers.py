"""Servers that tenants control cannot fill the operator's memory together, nor delay the queue of another tenant."""

from pathlib import Path
from typing import Any

from testkit.faults.hostile_server import NOW, PAGE, STALLED, Answer, peak_beside
from testkit.kubernetes.operator_in_memory import MemoryApi, add_queue, conditions, operator, queue_body
from testkit.programs.peak_memory import limit_of_the_chart
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import eventually

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
    peak = await peak_beside(
        servers.answers,
        SERVERS,
        "testkit.kubernetes.operator_memory",
        valkey.url,
        until=lambda: eventually(
            lambda: all(servers.asked) and sum(one >= PAGES for one in servers.asked) >= 4
        ),
    )
    assert peak < limit_of_the_chart("operator") / 2


async def test_a_queue_with_thousands_of_workers_is_served(valkey: Server, tmp_path: Path) -> None:
    api = MemoryApi()
    async with open_server(valkey.url) as store:
        await store.queue("media.thumbs").enqueue("x")
        await store.queue("media.thumbs", worker="w").claim(wait=0)
        seen_at = round(1000 * (await store.queue("media.thumbs").snapshot()).now)
    words: list[Any] = [word for number in range(3000) for word in (seen_at, f"worker-{number:050d}")]
    valkey.call("ZADD", "cq:{media.thumbs}:workers", *words)
    async with operator(api, tmp_path) as context:
        await add_queue(context, api, queue_body(valkey))
        await eventually(lambda: "RedisReachable" in conditions(api))
        assert conditions(api)["RedisReachable"].startswith("True ")
