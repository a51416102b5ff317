"""The conditions of a queue in local mode are those that the operator has for the same state."""

from dataclasses import replace
from typing import Any

import pytest

from claimq.model import ServerReport, ServerWarning
from claimq_control.decide.conditions import View, all_conditions
from claimq_control.decide.observed import Observed
from claimq_control.fault import Fault
from claimq_control.scaling import Decision, Limit, ScalingRule, ScalingState
from claimq_kubernetes.queue_resource import read_queue
from claimq_kubernetes.worker_pods import read_pods
from claimq_local.plan import Part, WorkerSeen
from claimq_local.status import Observation, lasting_limit, status
from claimq_operator.decide.objects import Objects
from claimq_operator.decide.workers_state import workers_state
from testkit.kubernetes_objects import Body, deployment_body, pod_body, snapshot

NOW = 1000.0
READY = WorkerSeen(1, Part.RUNNING, Part.RUNNING)
STARTING = WorkerSeen(2, Part.STARTING)
FAILING = WorkerSeen(3, Part.RUNNING, Part.ABSENT, app_retry_at=NOW + 5)
WITHOUT_SIDECAR = WorkerSeen(4, Part.ABSENT, Part.RUNNING, sidecar_retry_at=NOW + 5)
FULL = ServerReport("valkey", "9.1", "standalone", (ServerWarning("Full", "it is full"),))
UNSAFE = ServerReport("valkey", "9.1", "standalone", (ServerWarning("NoAppendOnly", "set it"),))


def decided(
    replicas: int | None = 1, rule: ScalingRule = ScalingRule.TARGET_AGE, limit: Limit | None = None
) -> Decision:
    return Decision(replicas, rule, "because", ScalingState(), limit=limit)


def seen(**fields: Any) -> Observation:
    """A queue that works, with these differences."""
    spec = read_queue(queue_body()).spec
    assert spec is not None
    working = Observation(spec=spec, snapshot=snapshot(main=1), decision=decided(), workers=(READY,), now=NOW)
    return replace(working, **fields)


def queue_body(**spec: Any) -> Body:
    metadata = {"name": "thumbs", "namespace": "media", "uid": "u", "generation": 1, "resourceVersion": "7"}
    return {
        "apiVersion": "claimq.dev/v1alpha1",
        "kind": "ReliableQueue",
        "metadata": metadata,
        "spec": {"redis": {"url": "redis://h/0"}, "worker": {"image": "a"}, **spec},
    }


def pod_of(worker: WorkerSeen) -> Body:
    """A pod in the state of the worker."""
    body = pod_body(f"w{worker.number}", ready=worker.is_ready)
    if worker.waits_to_restart(NOW):
        container = body["status"]["containerStatuses"][0]
        container["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    return body


def operators_conditions(one: Observation) -> dict[str, str]:
    """What the operator reports for a ReliableQueue in this state."""
    resource = read_queue(queue_body(suspend=one.spec.suspend))
    fault = Fault("Misused" if one.is_misused else "Unreachable", "m", needs_action=one.is_misused)
    objects = Objects(resource, deployment_body(len(one.workers)))
    observed = Observed(
        resource=resource,
        workers=workers_state(objects, read_pods([pod_of(worker) for worker in one.workers], [])),
        snapshot=one.snapshot,
        report=one.report,
        redis_fault=None if one.snapshot is not None else fault,
    )
    view = View(observed, one.decision, one.worker_counts["desired"])
    return {found.type: found.status for found in all_conditions(view)}


def conditions(one: Observation) -> dict[str, str]:
    return {found["type"]: found["status"] for found in status(one)["conditions"]}


def suspended() -> Observation:
    working = seen()
    spec = replace(working.spec, suspend=True)
    return replace(working, spec=spec, decision=decided(0, ScalingRule.SUSPENDED), workers=())


STATES = {
    "working": seen(),
    "empty": seen(snapshot=snapshot(), decision=decided(0, ScalingRule.IDLE), workers=()),
    "starting": seen(workers=(STARTING,)),
    "failing": seen(workers=(FAILING,)),
    "without its sidecar": seen(workers=(WITHOUT_SIDECAR,)),
    "one of two failing": seen(workers=(READY, FAILING), decision=decided(2)),
    "unreachable": seen(snapshot=None, decision=decided(None, ScalingRule.UNKNOWN)),
    "misused": seen(snapshot=None, decision=decided(None, ScalingRule.UNKNOWN), is_misused=True),
    "full": seen(report=FULL),
    "full before it was unreachable": seen(
        snapshot=None, decision=decided(None, ScalingRule.UNKNOWN), report=FULL
    ),
    "unsafe": seen(report=UNSAFE),
    "paused": seen(snapshot=snapshot(main=1, paused=True)),
    "suspended": suspended(),
    "manual": seen(decision=decided(1, ScalingRule.MANUAL)),
    "limited": seen(decision=decided(limit=Limit.MAX_REPLICAS), limit=Limit.MAX_REPLICAS),
}


@pytest.mark.parametrize("name", STATES)
def test_the_conditions_are_those_of_the_operator(name: str) -> None:
    assert conditions(STATES[name]) == operators_conditions(STATES[name])


def test_the_states_differ_in_every_condition() -> None:
    found = [conditions(one) for one in STATES.values()]
    for name in found[0]:
        assert {one[name] for one in found} - {"Unknown"} == {"True", "False"}, name


def test_warnings_of_the_server_begin_with_their_code() -> None:
    assert status(seen(report=UNSAFE))["redis"]["warnings"] == ["NoAppendOnly: set it"]
    assert status(seen())["redis"]["warnings"] == []


def test_workers_are_counted_by_what_they_do() -> None:
    one = seen(workers=(replace(READY, busy=1), STARTING), decision=decided(3))
    assert one.worker_counts == {"desired": 3, "ready": 1, "busy": 1}
    assert replace(one, decision=decided(None)).worker_counts["desired"] == 2, "the number stays as it is"


@pytest.mark.parametrize(
    ("decision", "before", "after"),
    [
        (decided(2), None, None),
        (decided(2, limit=Limit.MAX_REPLICAS), None, Limit.MAX_REPLICAS),
        (decided(2), Limit.MAX_REPLICAS, Limit.MAX_REPLICAS),
        (decided(2), Limit.LONG_ITEMS, Limit.LONG_ITEMS),
        (decided(1), Limit.MAX_REPLICAS, None),
        (decided(2), Limit.SLOW_START, None),
    ],
)
def test_a_limit_stays_while_the_maximum_is_wanted(
    decision: Decision, before: Limit | None, after: Limit | None
) -> None:
    assert lasting_limit(decision, before, 2) is after
