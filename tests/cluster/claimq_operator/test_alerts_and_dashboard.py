"""Alerts and dashboard beside real scrapes of an operator and a sidecar, by a real Prometheus."""

import re
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from prometheus_client import CollectorRegistry, generate_latest, start_http_server

import claimq.blocking
from claimq.metrics import ConsumerMetrics
from testkit import tiers
from testkit.kubernetes.operator_world import World
from testkit.programs.ports import free_port
from testkit.repository.expressions import expressions, has_series, selectors
from testkit.repository.prometheus import Prometheus, programs, promtool
from testkit.servers import debian
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import Sidecar


@pytest.fixture(autouse=True)
def prometheus_is_there() -> None:
    try:
        programs()
    except debian.PackageMissing as error:
        tiers.skip_missing(f"prometheus: {error}")


@pytest.fixture
def program(world: World) -> Iterator[tuple[int, CollectorRegistry]]:
    """The metrics of a program without a sidecar that has worked, and their port."""
    registry, port = CollectorRegistry(), free_port()
    with claimq.blocking.connect(world.redis.tcp_url) as server:
        queue = server.queue("programs")
        queue.enqueue("done")
        queue.consume(str, observer=ConsumerMetrics(registry=registry), return_when_empty=True)
    page, thread = start_http_server(port, "127.0.0.1", registry)
    yield port, registry
    page.shutdown()
    page.server_close()
    thread.join()


@pytest.fixture
def scraped(
    world: World,
    items: Callable[..., claimq.blocking.BlockingQueue],
    program: tuple[int, CollectorRegistry],
) -> Iterator[tuple[Prometheus, str, str, str]]:
    """A Prometheus, and the pages of an operator, a sidecar and a program that have done everything that is counted."""
    operator = world.operator()
    world.queue()
    queue = items()
    queue.enqueue_many(["done", "failed", "held by a container that ends", "waiting"])
    sidecar = Sidecar(world.redis.tcp_url, f"{world.namespace}.thumbs", "pod-1").start()
    try:
        (done,), (failed,), _ = sidecar.claim(), sidecar.claim(), sidecar.claim()
        sidecar.outcomes("done", done["token"])
        sidecar.outcomes("fail", failed["token"], error="no such file")
        sidecar.ask("POST", "/v1/done", {"tokens": ["not a token"]})
        eventually_sync(lambda: operator.metric("claimq_queue_items", state="busy") == 1)
        labels = {"namespace": world.namespace, "name": "thumbs"}
        jobs: dict[str, tuple[int, dict[str, str]]] = {
            "operator": (operator.port, {}),
            "sidecar": (sidecar.health_port, labels),
            "program": (program[0], {}),
        }
        with Prometheus(jobs) as server:
            own = sidecar.health("/metrics").body.decode()
            yield server, operator.metrics_page(), own, generate_latest(program[1]).decode()
    finally:
        sidecar.close()


def test_each_expression_reads_series_that_exist(scraped: tuple[Prometheus, str, str, str]) -> None:
    server, *pages = scraped
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)", "\n".join(pages), re.MULTILINE))
    for expression in expressions():
        server.query(expression)
        for name, labels in selectors(expression):
            family = re.sub(r"_bucket$", "", name)
            assert family in kinds, f"{expression}: no {name}"
            if has_series(family, labels):
                # An operator that has lost its leadership, as on a busy machine, has no series until it leads again.
                eventually_sync(
                    partial(server.query, name + labels), why=f"{expression}: series of {name}{labels}"
                )


def test_promtool_finds_nothing_to_criticize(scraped: tuple[Prometheus, str, str, str]) -> None:
    for page in scraped[1:]:
        checked = promtool("check", "metrics", given=page)
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
