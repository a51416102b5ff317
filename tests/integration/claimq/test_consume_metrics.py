"""consume() with an observer: the metrics of a program without a sidecar."""

import asyncio
import re
import sys
import textwrap
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

import claimq
from claimq import ConsumeObserver, Fail, Item, Policy, ReliableQueue, Requeue, StoreMisused
from claimq.metrics import ConsumerMetrics
from testkit.faults.proxy import FaultProxy
from testkit.programs.ports import free_port
from testkit.programs.processes import Process
from testkit.queues.clock import move_clock
from testkit.repository.tree import ROOT
from testkit.servers.patient import open_blocking_queue, patient
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually, eventually_sync
from testkit.workers.handlers import Seen, fill


class Figures(ConsumerMetrics):
    """Metrics in a registry of their own, as a scrape reads them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        super().__init__(registry=self.registry)

    def value(self, name: str, **labels: str) -> float:
        """A sample of the queue q."""
        found = self.registry.get_sample_value(f"claimq_consumer_{name}", {"queue": "q", **labels})
        return 0.0 if found is None else found

    def by(self, name: str, label: str) -> dict[str, float]:
        """The samples of a counter, by one of its labels."""
        families = (one for one in self.collect() if one.name == f"claimq_consumer_{name}")
        return {sample.labels[label]: sample.value for family in families for sample in family.samples}

    def is_balanced(self) -> bool:
        """Whether each claim has ended once."""
        ended = [*self.by("verdicts", "verdict").values(), *self.by("given_back_items", "cause").values()]
        return self.value("claimed_items_total") == sum(ended) and not self.value("claims_in_flight")


@pytest.fixture
def figures() -> Figures:
    return Figures()


async def test_each_verdict_is_counted(queue: ReliableQueue, figures: Figures) -> None:
    # First those that end all claims of the worker: no verdict of another item is on its way then.
    await queue.enqueue_many(["crash", "expire", "done", "requeue", "later", "permanent"])

    async def handler(item: Item) -> None:
        if item.text == "requeue" and not item.requeue_count:
            raise Requeue
        if item.text == "later":
            raise Requeue(delay=86_400)
        if item.text == "permanent":
            raise Fail("no", permanent=True)
        if item.text == "crash" and not item.crash_count:
            await queue.release_worker("w1")
        if item.text == "expire" and not item.crash_count:
            await move_clock(queue, 3600)
            await queue.reap()

    consumed = await queue.consume(handler, chunk=1, return_when_empty=True, observer=figures)

    verdicts = {"done": 4, "requeued": 1, "delayed": 1, "failed": 1, "lost": 2}
    assert figures.by("verdicts", "verdict") == verdicts
    assert (consumed.done, consumed.lost) == (4, 2)
    assert figures.value("item_waiting_seconds_count") == figures.value("claimed_items_total") == 9
    assert figures.value("item_processing_seconds_count") == 7
    assert figures.is_balanced()


async def test_dropped_items_are_counted(queue: ReliableQueue, seen: Seen, figures: Figures) -> None:
    await queue.enqueue_many(["bad 1", "good"])
    await queue.consume(seen, chunk=2, return_when_empty=True, on_failure="drop", observer=figures)
    assert figures.by("verdicts", "verdict") == {"dropped": 1, "done": 1}


async def test_items_are_timed_by_the_servers_clock(queue: ReliableQueue, figures: Figures) -> None:
    began = time.monotonic()
    await queue.update_policy(busy_expiry=86_400)
    await queue.enqueue("first")
    await move_clock(queue, 100)
    second = asyncio.Event()

    async def handler(item: Item) -> None:
        if item.text == "first":
            await move_clock(queue, 1000)
            await queue.enqueue("second")
            await second.wait()
        second.set()

    await queue.consume(handler, concurrency=2, max_items=2, observer=figures)
    passed = 2 * (time.monotonic() - began)  # of two items; and a moved clock is a tenth slower
    assert figures.value("item_waiting_seconds_sum") == pytest.approx(100, abs=0.5 + passed)
    assert figures.value("item_processing_seconds_sum") == pytest.approx(1000, abs=0.5 + passed)


async def test_claims_that_a_stop_gives_back_are_counted(
    queue: ReliableQueue, seen: Seen, figures: Figures
) -> None:
    await fill(queue, 10)
    stop = asyncio.Event()
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=4, stop=stop, observer=figures))
    await eventually(lambda: seen.running and figures.value("claims_in_flight") == 4)
    await move_clock(queue, 50)
    stop.set()
    await eventually(lambda: figures.by("given_back_items", "cause") == {"stopped": 3})
    assert figures.value("oldest_claim_seconds") > 0
    seen.may_go_on.set()
    await consuming
    assert figures.by("verdicts", "verdict") == {"done": 1}
    assert figures.is_balanced()


async def test_a_handler_that_is_interrupted_has_no_verdict(
    queue: ReliableQueue, seen: Seen, figures: Figures
) -> None:
    await fill(queue, 3)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=3, observer=figures))
    await eventually(lambda: seen.running)
    consuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await consuming
    assert figures.by("given_back_items", "cause") == {"interrupted": 1, "stopped": 2}
    assert figures.is_balanced()


@pytest.fixture
async def far(proxy: FaultProxy) -> AsyncIterator[ReliableQueue]:
    """The queue behind a proxy. A call is given up soon."""
    settings = patient(proxy.tcp_url, retry_for=0.1, verdict_retry_for=0.1)
    async with claimq.connect(settings=settings) as server:
        yield server.queue("q")
        proxy.heal()


async def test_a_verdict_without_an_answer_is_none(
    queue: ReliableQueue, far: ReliableQueue, proxy: FaultProxy, seen: Seen, figures: Figures
) -> None:
    await queue.update_policy(busy_expiry=3600)  # no renewal fails in between
    await fill(queue, 1)
    seen.may_go_on.clear()
    stop = asyncio.Event()
    consuming = asyncio.ensure_future(far.consume(seen, max_items=1, stop=stop, observer=figures))
    await eventually(lambda: seen.running)
    proxy.refuse()
    seen.may_go_on.set()
    await eventually(lambda: figures.value("store_errors_total", kind="unavailable"))
    stop.set()
    await consuming
    assert figures.by("given_back_items", "cause") == {"unanswered": 1}
    assert figures.is_balanced()


async def test_claims_without_an_answer_are_counted(
    far: ReliableQueue, proxy: FaultProxy, seen: Seen, figures: Figures
) -> None:
    stop = asyncio.Event()
    proxy.refuse()
    consuming = asyncio.ensure_future(far.consume(seen, stop=stop, observer=figures))
    await eventually(lambda: figures.value("store_errors_total", kind="unavailable"))
    stop.set()
    await consuming


async def test_renewals_without_an_answer_are_counted(
    queue: ReliableQueue, far: ReliableQueue, proxy: FaultProxy, seen: Seen, figures: Figures
) -> None:
    await queue.update_policy(busy_expiry=0.9)
    await fill(queue, 1)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(far.consume(seen, max_items=1, observer=figures))
    await eventually(lambda: seen.running)
    proxy.refuse()
    await eventually(lambda: figures.value("store_errors_total", kind="unavailable"))
    proxy.heal()
    seen.may_go_on.set()
    await consuming
    assert figures.is_balanced()


async def test_a_verdict_that_the_server_refuses_is_none(
    queue: ReliableQueue, figures: Figures, valkey: Server
) -> None:
    await queue.update_policy(busy_expiry=3600)  # no renewal is refused in between
    await fill(queue, 1)

    async def handler(item: Item) -> None:
        valkey.call("DEL", "cq:{q}:stats")
        valkey.call("SET", "cq:{q}:stats", "of another program")

    with pytest.raises(StoreMisused):
        await queue.consume(handler, max_items=1, observer=figures)
    assert figures.by("given_back_items", "cause") == {"refused": 1}
    assert figures.value("store_errors_total", kind="misused") == 2, "the verdict, and giving the item back"


class Broken:
    """An observer whose methods all raise."""

    def fail(self, queue: str, reported: object, cause: str = "") -> None:
        """Raises."""
        raise ZeroDivisionError(queue)

    claimed = settled = given_back = call_failed = fail


async def test_an_observer_that_raises_changes_nothing(
    queue: ReliableQueue, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue_many(["1", "bad 2", *"3456"])
    stop = asyncio.Event()
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, chunk=4, stop=stop, observer=Broken()))
    await eventually(lambda: seen.running)
    seen.may_go_on.set()
    await eventually(lambda: len(seen.payloads) == 6)
    stop.set()
    consumed = await consuming
    assert (consumed.done, consumed.failed, consumed.lost) == (5, 1, 0)
    assert [record.message for record in caplog.records if "observer" in record.message] == [
        "the observer of q failed; its figures may be wrong from now on"
    ]


@pytest.mark.parametrize("observer", [ConsumerMetrics, object(), 0])
async def test_what_is_no_observer_is_refused_before_anything_is_claimed(
    queue: ReliableQueue, seen: Seen, observer: object
) -> None:
    await fill(queue, 1)
    with pytest.raises(TypeError, match=r"give a claimq\.metrics\.ConsumerMetrics\(\)"):
        await queue.consume(seen, observer=cast("ConsumeObserver", observer))
    assert await queue.length() == 1


def test_blocking_programs_have_the_same_metrics(valkey: Server, figures: Figures) -> None:
    with open_blocking_queue(valkey.url) as queue:
        queue.enqueue_many(["a", "b"])
        queue.consume(lambda _: None, return_when_empty=True, observer=figures)
    assert figures.by("verdicts", "verdict") == {"done": 2}
    assert figures.is_balanced()


PROGRAM, OWN_LOOP = re.findall(r"```python\n(.*?)```", (ROOT / "docs/metrics.md").read_text(), re.DOTALL)


def page(port: int) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as response:
            return str(response.read().decode())
    except OSError:  # it has not started
        return ""


def test_the_program_of_the_documentation_serves_its_metrics(valkey: Server, tmp_path: Path) -> None:
    with open_blocking_queue(valkey.url, "thumbnails") as queue:
        queue.enqueue("cat.png")
    port, script, log = free_port(), tmp_path / "resize.py", tmp_path / "log"
    assert "start_http_server(9100)" in PROGRAM
    script.write_text(PROGRAM.replace("9100", f"{port}, '127.0.0.1'"))
    done = 'claimq_consumer_verdicts_total{queue="thumbnails",verdict="done"} 1.0'
    with Process([sys.executable, script], env={"CLAIMQ_REDIS_URL": valkey.url}, log=log) as program:
        eventually_sync(lambda: done in page(port) or not program.is_running)
        assert program.terminate() == 0, log.read_text()


async def test_a_loop_of_the_programs_own_can_have_metrics(queue: ReliableQueue, figures: Figures) -> None:
    await fill(queue, 2)
    names: dict[str, Any] = {}
    exec("async def loop(queue, metrics):\n" + textwrap.indent(OWN_LOOP, "    "), names)
    await names["loop"](queue, figures)
    assert figures.by("verdicts", "verdict") == {"done": 2}
    assert figures.value("item_processing_seconds_count") == 2
    assert figures.is_balanced()
