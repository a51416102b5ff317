"""A client that takes the slots is named with what it delays: by the commands, on the page and in the metrics."""

import re
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from claimq import NewItem, ReliableQueue, connect
from testkit.programs.metrics_page import MetricsPage
from testkit.programs.terminal import Terminal
from testkit.queues.clock import move_clock
from testkit.servers.patient import patient
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync

SENTENCE = (
    "client acme has 100% of the slots and 100% of the time, while 2 others wait, for up to 7 min; limit each client: "
    "claimq limits q set each-client:per=client,busy=2"
)
HOLDS = """
import time
import claimq.worker
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            time.sleep(3600)
"""


async def crowd(queue: ReliableQueue) -> None:
    """`acme` has all four slots and more items, and two other clients wait."""
    await queue.add_to_index()
    await queue.enqueue_many([NewItem("x", client="acme") for _ in range(9)])
    await queue.claim(4, wait=0)
    await queue.enqueue_many([NewItem("x", client=client) for client in ("ann", "bob")])
    await move_clock(queue, 400)


def test_status_and_doctor_name_the_client_and_the_cure(
    on: Callable[..., Any], queue_do: Callable[..., Any]
) -> None:
    queue_do(crowd)
    document = on("status", "q", "-o", "json").json
    assert re.sub(r"for up to (6\.\d|7) min", "for up to 7 min", document["attention"]) == SENTENCE
    (neighbour,) = document["neighbours"]
    assert (neighbour["client"], neighbour["slots"], neighbour["delayed_clients"]) == ("acme", 1.0, 2)
    assert "client acme has 100% of the slots" in " ".join(on("status").out.split())
    checks = on("doctor", "q", "-o", "json").json["checks"]
    (check,) = (one for one in checks if one["check"] == "queue q: oldest item")
    assert check["message"].startswith("client acme has 100% of the slots")
    assert check["fix"].startswith("limit each client: ")


def test_status_of_many_queues_names_the_client_too(
    on: Callable[..., Any], queue_do: Callable[..., Any], valkey: Server
) -> None:
    async def among_others(queue: ReliableQueue) -> None:
        await crowd(queue)
        async with connect(settings=patient(valkey.url)) as server:
            await server.enqueue({f"other-{number}": ["x"] for number in range(30)})
            for number in range(30):
                await server.queue(f"other-{number}").add_to_index()

    queue_do(among_others)
    lines = on("status").out
    assert "other-29" in lines
    assert "client acme has 100% of the slots" in " ".join(lines.split())


def test_top_names_the_client_in_the_list_and_of_one_queue(
    valkey: Server, queue_do: Callable[..., Any]
) -> None:
    queue_do(crowd)
    command = [sys.executable, "-m", "claimq_cli", "top", "--redis", valkey.url, "--interval", "100ms"]
    with Terminal(command, columns=120) as terminal:
        terminal.read_until("q (noisy neighbour)")
        terminal.type(b"\r")
        terminal.read_until("client acme has 100% of the slots")
        terminal.type(b"q")
        assert terminal.wait() == 0


def test_metrics_and_page_name_the_client(
    start_up: Callable[..., Any], claimq: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "worker.py").write_text(HOLDS)
    worker = {"command": [sys.executable, str(tmp_path / "worker.py")]}
    up = start_up({"worker": worker, "scaling": {"mode": "Manual", "replicas": 2}}, "--web", "127.0.0.1:0")
    up.until_says(r"web page: http://127\.0\.0\.1:\d+/")
    url = re.findall(r"web page: (http://\S+)", up.text)[0]
    claimq("enqueue", "trial", "--client", "acme", "a", "b", "c")
    eventually_sync(lambda: claimq("status", "trial", "-o", "json").json["lengths"]["busy"] == 2)
    began = time.monotonic()
    claimq("enqueue", "trial", "--client", "ann", "a")

    def page(path: str) -> str:
        with urllib.request.urlopen(url + path, timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def delay() -> float:
        return MetricsPage(page("metrics")).total("claimq_queue_neighbour_delay_seconds", client="acme")

    assert 1 <= eventually_sync(delay) <= time.monotonic() - began
    metrics = MetricsPage(page("metrics"))
    assert metrics.total("claimq_queue_neighbour_share", client="acme", kind="slots") == 1
    assert "client acme has 100% of the slots" in page("queues/trial")
    assert "client acme has 100% of the slots" in " ".join(claimq("status", "trial").out.split())
