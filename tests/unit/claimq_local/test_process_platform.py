"""Local mode as the platform of a queue's workers: what it reports, and what it does with a plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from claimq.model import Reason, WorkerInfo
from claimq_control.decide.observed import DeclaredQueue, Observed
from claimq_control.decide.plan import Memory, Plan, plan
from claimq_control.fault import Fault
from claimq_control.manifest import parse_manifest
from claimq_control.queue_metrics import QueueMetrics
from claimq_control.workers import WorkersState
from claimq_local.plan import Drain
from claimq_local.process_platform import ProcessPlatform
from claimq_local.workers.worker import ProcessEnd, Worker
from testkit.kubernetes.kubernetes_objects import snapshot

Add = Callable[..., Worker]


class Context:
    """What local mode gives to workers."""

    mark = "0123456789"
    sockets = logs = Path("/logs")

    def __init__(self) -> None:
        self.metrics = QueueMetrics()
        self.notes: list[str] = []

    def note(self, text: str, *, is_trouble: bool = False, queue: str = "") -> None:
        self.notes.append(text)

    def changed(self) -> None:
        """Nothing."""

    def save(self) -> None:
        """Nothing."""


@pytest.fixture
def context() -> Context:
    return Context()


@pytest.fixture
async def platform(context: Context) -> ProcessPlatform:
    manifest = parse_manifest(
        {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {"name": "q"},
            "spec": {
                "worker": {"command": ["true"]},
                "scaling": {"maxReplicas": 2, "scaleDown": {"stabilizationWindow": "0s"}},
            },
        },
        local=True,
    )
    return ProcessPlatform(0, manifest, "redis://127.0.0.1:1/0", Path(), context)


@pytest.fixture
def add(platform: ProcessPlatform) -> Add:
    """add(sidecar=True, app=True) -> another worker of the platform, with these processes."""

    def worker(*, sidecar: bool = True, app: bool = True, drain: Drain | None = None) -> Worker:
        platform.add_worker()
        added = list(platform.table.values())[-1]
        process: Any = SimpleNamespace(since=0.0, pid=7)
        added.sidecar, added._is_sidecar_ready = (process, True) if sidecar else (None, False)
        added.app = process if app else None
        added.claim_name, added.drain = f"{added.name}.mark.0001", drain
        return added

    return worker


def fail(worker: Worker) -> None:
    """The app of the worker has ended, and waits to be started again."""
    worker.app = None
    worker._report_exit(
        SimpleNamespace(
            role="app", pid=7, ran_for=0.1, how_it_ended=lambda: "exited with code 1", log_tail=list
        ),  # type: ignore[arg-type]  # only these are read
        worker._app_restarts,
    )


def planned(platform: ProcessPlatform, workers: WorkersState, **look: Any) -> tuple[Observed, Plan]:
    resource = DeclaredQueue(spec=platform.manifest.spec, status=platform.status)
    observed = replace(Observed(resource, workers, snapshot(main=1)), **look)
    return observed, plan(observed, Memory(), now=0.0, clock=0.0)


def conditions(decided: Plan) -> dict[str, tuple[str, str, str]]:
    return {
        condition["type"]: (condition["status"], condition["reason"], condition["message"])
        for condition in decided.status["conditions"]
    }


async def test_draining_workers_are_reported_as_terminating(platform: ProcessPlatform, add: Add) -> None:
    busy = add()
    add(app=False)
    add(drain=Drain(0.0))
    state = platform.workers([WorkerInfo(busy.claim_name, 2, 0.0), WorkerInfo("another", 1, 0.0)])
    assert (state.replicas, state.ready, state.busy, len(state.workers)) == (2, 1, 1, 3)
    assert [worker.is_terminating for worker in state.workers] == [False, False, True]


async def test_a_worker_is_as_old_as_its_order(platform: ProcessPlatform, add: Add) -> None:
    worker = add(sidecar=False, app=False)
    assert worker.state(0, worker.ordered_at + 7.0, 1000.0).created_at == 993.0
    assert planned(platform, platform.workers([]))[1].status["scaling"]["inputs"]["starting"] == 1


async def test_a_worker_that_fails_is_reported_with_its_cause(platform: ProcessPlatform, add: Add) -> None:
    fail(add())
    status = conditions(planned(platform, platform.workers([]))[1])
    cause = "worker q-1: its app exited with code 1, and is started again with growing delays"
    assert status["WorkersAvailable"][:2] == ("False", "Restarting")
    assert cause in status["WorkersAvailable"][2]
    assert status["Ready"][:2] == ("False", "Restarting")


async def test_a_worker_that_starts_names_its_log_files(platform: ProcessPlatform, add: Add) -> None:
    add(app=False)
    status = conditions(planned(platform, platform.workers([]))[1])
    assert status["Ready"][:2] == ("True", "WorkersStarting")
    assert "see the files q-1.*.log in /logs" in status["WorkersAvailable"][2]


async def test_an_order_for_more_starts_workers_and_one_for_fewer_drains_the_newest_idle(
    platform: ProcessPlatform, add: Add, context: Context
) -> None:
    busy, idle = add(), add()
    idle.ordered_at += 1.0
    observed, decided = planned(
        platform, platform.workers([WorkerInfo(busy.claim_name, 1, 0.0)]), snapshot=snapshot(main=0, busy=1)
    )
    assert await platform.order(observed, replace(decided, replicas=1, victims=("q-2",)))
    assert [worker.drain is not None for worker in (busy, idle)] == [False, True]
    observed = Observed(observed.resource, platform.workers([]), snapshot(main=9))
    assert await platform.order(observed, replace(decided, replicas=2, victims=()))
    assert [worker.drain is None for worker in platform.table.values()] == [True, False, True]
    assert any("q: 2 -> 1 workers" in note for note in context.notes)


async def test_the_newest_idle_worker_is_the_first_victim(platform: ProcessPlatform, add: Add) -> None:
    busy, old, new = add(), add(), add()
    old.ordered_at, new.ordered_at = busy.ordered_at + 1.0, busy.ordered_at + 2.0
    state = platform.workers([WorkerInfo(busy.claim_name, 1, 0.0)])
    decided = planned(platform, state, snapshot=snapshot(main=0, busy=1))[1]
    assert (decided.replicas, decided.victims, decided.costs) == (1, ("q-3", "q-2"), {})


async def test_while_it_stops_nothing_is_ordered(platform: ProcessPlatform) -> None:
    platform.is_stopping = True
    assert not await platform.order(*planned(platform, platform.workers([])))
    assert platform.table == {}


async def test_an_end_is_reported_until_it_is_handled_and_the_app_waits_for_that(
    platform: ProcessPlatform, add: Add
) -> None:
    worker = add()
    worker._end(ProcessEnd(worker.claim_name, "its app was killed by SIGKILL", since=2.0))
    (ended,) = platform.ended()
    assert (ended.prefix, ended.is_sidecar, ended.is_last, ended.reason) == (
        worker.claim_name,
        False,
        True,
        Reason.CRASHED,
    )
    assert ended.within >= 2.0
    assert worker.seen().app_retry_at == float("inf")
    platform.mark_handled([])
    assert worker.seen().app_retry_at == float("inf")
    platform.mark_handled([ended])
    assert platform.ended() == ()
    assert worker.seen().app_retry_at == 0.0


async def test_an_outage_is_shown_once_and_its_end_too(platform: ProcessPlatform, context: Context) -> None:
    fault = Fault("Unreachable", "no answer")
    outage = {"snapshot": None, "redis_fault": fault}
    for look in ({}, outage, outage, {}):
        observed, decided = planned(platform, platform.workers([]), **look)
        await platform.report(observed, decided, None)
    outages = [note for note in context.notes if "Redis" in note]
    assert outages == [
        "q: RedisUnreachable: no answer; the number of workers is kept",
        "q: RedisReachable: the server is reachable",
    ]
    assert platform.board.attention == ()


async def test_the_screen_names_each_condition_that_needs_attention_once(platform: ProcessPlatform) -> None:
    fault = Fault("Misused", "it is no queue", needs_action=True)
    observed, decided = planned(platform, platform.workers([]), snapshot=None, redis_fault=fault)
    await platform.report(observed, decided, None)
    assert platform.board.attention == ("not ready: it is no queue",)
    assert platform.board.problem == "it is no queue"
