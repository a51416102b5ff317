"""The metrics of local mode are those of the operator for the same queue, and the chart's expressions read them."""

import asyncio
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

import claimq as library
from claimq.model import Snapshot, State, WorkerInfo
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Memory, plan
from claimq_control.queue_metrics import QueueMetrics
from claimq_kubernetes.queue_resource import read_queue
from claimq_kubernetes.worker_pods import read_pods
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.workers_state import workers_state
from testkit.kubernetes.kubernetes_objects import deployment_body, pod_body, worker_name
from testkit.plugin import StartUp
from testkit.programs.metrics_page import MetricsPage
from testkit.repository.expressions import expressions, has_series, selectors
from testkit.waiting import PATIENCE, eventually_sync

Families = dict[str, Metric]

WORKER = """
import time
import claimq.worker
with claimq.worker.connect() as worker:
    for item in worker.items(wait=1.0):
        with item:
            while item.text == "held":
                time.sleep(0.01)
            if item.text == "broken":
                raise ValueError("it is broken")
"""
QUEUE = "media.trial"
SCALING = {"maxReplicas": 1, "targetAge": "90s"}
OPERATORS_OWN = {"claimq_leader", "claimq_pass_lag_seconds", "claimq_passes_total"} | {
    "claimq_kubernetes_requests_total"
}


@pytest.fixture
def spec(tmp_path: Path) -> dict[str, object]:
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, str(tmp_path / "worker.py")]
    return {"worker": {"command": command}, "scaling": SCALING, "queueName": QUEUE, "requeueLimit": 0}


def families(page: str) -> Families:
    return {one.name: one for one in text_string_to_metric_families(page)}


def fetched(url: str) -> str:
    with urllib.request.urlopen(f"{url}metrics", timeout=PATIENCE) as answer:
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return str(answer.read().decode())


def operators_page(seen: Snapshot) -> str:
    """What the operator renders for a ReliableQueue with the same spec and this state."""
    metadata = {"name": "trial", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "7"}
    body = {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": metadata,
        "spec": {"redis": {"url": "redis://h/0"}, "worker": {"image": "a"}, "scaling": SCALING},
    }
    workers = [WorkerInfo(worker_name("w"), 1, 0.0)]
    pods, objects = (
        read_pods([pod_body("w")], workers, now=0.0),
        Objects(read_queue(body), deployment_body(1)),
    )
    observed = Observed(objects.resource, workers_state(objects, pods), seen)
    metrics = QueueMetrics()
    metrics.set_pass(("default", "trial"), observed, plan(observed, Memory(), now=0.0, clock=0.0))
    return metrics.render().decode()


def snapshot_of(url: str) -> Snapshot:
    async def read() -> Snapshot:
        async with library.connect(url) as server:
            return await server.queue(QUEUE).snapshot()

    return asyncio.run(read())


def has_failed(url: str, count: int) -> float:
    """The time by the server's clock once so many items have failed; 0 before."""
    found = snapshot_of(url)
    return found.now if found.lengths[State.FAILED] == count else 0.0


def values(family: Metric) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(one.name, frozenset(one.labels.items())): one.value for one in family.samples}


def comparable(family: Metric) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """The values without the one that depends on how fast the machine is."""
    limited = ("condition", "ScalingLimited")
    return {key: value for key, value in values(family).items() if limited not in key[1]}


def matches(labels: dict[str, str], matchers: str) -> bool:
    found = re.findall(r'(\w+)(=~?)"([^"]*)"', matchers)
    return all(
        re.fullmatch(value if kind == "=~" else re.escape(value), labels.get(name, ""))
        for name, kind, value in found
    )


def test_local_mode_exports_what_the_operator_exports(
    start_up: StartUp, claimq: Callable[..., Any], spec: dict[str, object]
) -> None:
    up = start_up(spec, "--web", "127.0.0.1:0")
    up.until_says(r"web page: http://127\.0\.0\.1:\d+/")
    url = re.findall(r"web page: (http://\S+)", up.text)[0]
    assert claimq("enqueue", QUEUE, "fine", "broken", "held", "waiting").code == 0

    def settled() -> str:
        text = fetched(url)
        page = MetricsPage(text)
        counts = {
            state: page.total("claimq_queue_items", state=state) for state in ("main", "busy", "failed")
        }
        assert counts == {"main": 1, "busy": 1, "failed": 1}
        assert page.total("claimq_queue_workers", kind="ready") == 1
        assert page.total("claimq_queue_workers", kind="busy") == 1
        assert page.total("claimq_sidecar_verdicts_total", verdict="done", worker=f"{QUEUE}-1") == 1
        return text

    text = eventually_sync(settled)
    here, there = families(text), families(operators_page(snapshot_of(up.state.queues[QUEUE])))
    compare(here, there)
    check_expressions(text, here)
    # As on a busy machine: the sidecar gives the claim back long before local mode sees the end of the app.
    up.process.send(signal.SIGSTOP)
    try:
        os.kill(up.until_pids("app", 1)[0], signal.SIGKILL)
        given_back = eventually_sync(lambda: has_failed(up.state.queues[QUEUE], 2))
        eventually_sync(lambda: snapshot_of(up.state.queues[QUEUE]).now > given_back + 3)
    finally:
        up.process.send(signal.SIGCONT)
    eventually_sync(
        lambda: MetricsPage(fetched(url)).total("claimq_claims_given_back_total", reason="crash") == 1,
        why="the claim of the killed app is counted",
    )


def test_a_sidecar_that_hangs_is_named_and_everything_else_is_there(
    start_up: StartUp, spec: dict[str, object]
) -> None:
    two = {"worker": {"command": ["sleep", "infinity"]}, "scaling": {"minReplicas": 2, "maxReplicas": 2}}
    up = start_up(spec | two, "--web", "127.0.0.1:0")
    up.until_says(r"web page: http://127\.0\.0\.1:\d+/")
    url = re.findall(r"web page: (http://\S+)", up.text)[0]

    def shown(*expected: int) -> bool:
        page = MetricsPage(fetched(url))
        workers = [f"{QUEUE}-{number}" for number in (1, 2)]
        assert [page.total("claimq_sidecar_up", worker=one) for one in workers] == [*expected]
        assert [page.total("claimq_sidecar_ready", worker=one) for one in workers] == [*expected]
        assert page.total("claimq_queue_workers", kind="desired") == 2
        return True

    eventually_sync(lambda: shown(1, 1))
    (pid,) = [one.pid for one in up.state.processes if (one.role, one.name) == ("sidecar", f"{QUEUE}-1")]
    os.kill(pid, signal.SIGSTOP)
    # Without a bound of its own, the scrape would wait as long as the sidecar is stopped.
    eventually_sync(lambda: shown(0, 1))
    os.kill(pid, signal.SIGCONT)
    eventually_sync(lambda: shown(1, 1))


def compare(here: Families, there: Families) -> None:
    """The families of queues are the same, with the same labels; so are the values that do not depend on time."""
    of_queues = {name: one for name, one in here.items() if not name.startswith("claimq_sidecar_")}
    assert of_queues.keys() == there.keys()
    for name, family in of_queues.items():
        assert (family.type, family.documentation) == (there[name].type, there[name].documentation)
        if name not in ("claimq_scaling_decisions", "claimq_claims_given_back"):
            assert values(family).keys() == values(there[name]).keys()
    for name in ("items", "workers", "transitions", "condition", "redis_reachable", "target_age_seconds"):
        assert comparable(here[f"claimq_queue_{name}"]) == comparable(there[f"claimq_queue_{name}"])
    (decision, *_) = here["claimq_scaling_decisions"].samples
    assert decision.labels.keys() == there["claimq_scaling_decisions"].samples[0].labels.keys()


def check_expressions(text: str, here: Families) -> None:
    """Every expression of the chart reads series that exist, except those about the operator itself, and about programs
    without a sidecar.
    """
    samples = [one for family in here.values() for one in family.samples]
    left_out: set[str] = set()
    for expression in expressions():
        for name, matchers in selectors(expression):
            family = name.removesuffix("_bucket")
            if family.startswith("claimq_consumer_"):
                continue
            if family in OPERATORS_OWN:
                left_out.add(family)
                continue
            assert f"# TYPE {family} " in text, f"{expression}: no {name}"
            if has_series(family, matchers):
                found = [one for one in samples if one.name == name and matches(one.labels, matchers)]
                assert found, f"{expression}: no series of {name}{matchers}"
                labels = found[0].labels
                assert (labels["namespace"], labels["name"]) == ("default", "trial")
    assert left_out == OPERATORS_OWN
