"""The condition Progressing: false while nothing is claimed although items wait and workers are ready."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from claimq.model import Snapshot, State, WorkerInfo
from claimq_control.decide.conditions import View, all_conditions
from claimq_control.decide.conditions.condition import Condition
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import NO_PROGRESS_REASON, Memory, plan
from claimq_control.fault import Fault
from claimq_control.workers import WorkerProblem
from testkit.kubernetes.kubernetes_objects import pod_body, snapshot
from testkit.kubernetes.observations import with_workers

Look = Callable[..., Observed]


def found(look: Observed, wanted: int = 0) -> dict[str, Condition]:
    return {one.type: one for one in all_conditions(View(look, None, wanted))}


def standing_still(**more: Any) -> Snapshot:
    """Nothing was claimed for ten minutes, an item is held for as long, and another one has ended before."""
    look = snapshot(
        main=3, busy=1, age=600.0, now=1_000_600.0, moved_at=1_000_000.0, counters={"done": 1}, **more
    )
    look.ages[State.BUSY] = 600.0
    return look


HELD = {"oldest_claim": "a.1/1000000000000.AbCdEfGh", "oldest_item": "order-7"}


def test_a_worker_that_hangs_with_an_item_stops_progress_and_is_named(observed: Look) -> None:
    look = observed(replicas=1, pods=[pod_body("a")], seen=standing_still(**HELD))
    progressing, ready = (found(look, wanted=1)[kind] for kind in ("Progressing", "Ready"))
    assert (progressing.status, progressing.reason) == ("False", "NoProgress")
    assert "a.1 has held the item order-7 since 1970-01-12T13:46:40Z" in progressing.message
    assert progressing.message.endswith("claimq -n media drain thumbs a.1")
    assert (ready.status, ready.reason, ready.message) == ("True", "NoProgress", progressing.message)


def test_a_long_item_is_named_while_nothing_waits_and_no_limit_ends_it(observed: Look) -> None:
    still = standing_still(**HELD)
    still.lengths[State.MAIN], still.ages[State.BUSY] = 0, 601.0
    look = observed(replicas=1, pods=[pod_body("a")], seen=still)
    conditions = found(look, wanted=1)
    assert (conditions["Progressing"].status, conditions["Progressing"].reason) == ("True", "ItemMayHang")
    assert conditions["Progressing"].message.startswith("long item: a.1 has held the item order-7 since ")
    assert conditions["Ready"].reason == "Working"
    assert look.resource.spec is not None
    limited = replace(look.resource, spec=replace(look.resource.spec, processing_timeout=3600.0))
    assert found(replace(look, resource=limited), wanted=1)["Progressing"].reason == "Progressing"


def test_ready_workers_that_ask_for_nothing_stop_progress(observed: Look) -> None:
    look = observed(replicas=1, pods=[pod_body("a")], seen=standing_still(oldest_claim=""))
    old = replace(look.workers.workers[0], created_at=1_000_000.0)
    look = with_workers(look, workers=(old,))
    assert look.snapshot is not None
    look.snapshot.lengths[State.BUSY] = 0
    assert found(look, wanted=1)["Progressing"].reason == "NoProgress"
    polls = replace(look, claims=(WorkerInfo("a.1", 0, 1_000_599.0),))
    assert found(polls, wanted=1)["Progressing"].status == "True"
    new = replace(old, created_at=1_000_580.0)
    assert found(with_workers(look, workers=(new,)), wanted=1)["Progressing"].status == "True"
    look.snapshot.ages[State.MAIN] = 30.0
    assert found(look, wanted=1)["Progressing"].status == "True"
    look.snapshot.ages[State.MAIN], look.snapshot.lengths[State.BUSY] = 600.0, 1
    assert found(look, wanted=1)["Progressing"].status == "True"


def test_a_pod_that_has_become_ready_after_a_long_start_has_time_to_ask(observed: Look) -> None:
    pod = pod_body("a", created="1970-01-12T13:46:40Z")
    still = standing_still()
    still.lengths[State.BUSY] = 0
    for ready_at, status in (("1970-01-12T13:55:30Z", "False"), ("1970-01-12T13:56:20Z", "True")):
        pod["status"]["conditions"][0]["lastTransitionTime"] = ready_at
        look = observed(replicas=1, pods=[pod], seen=still)
        assert found(look, wanted=1)["Progressing"].status == status


def test_a_paused_queue_and_one_whose_workers_start_are_said_to_progress(observed: Look) -> None:
    paused = observed(replicas=1, pods=[pod_body("a")], seen=standing_still(**HELD, paused=True))
    progressing = found(paused, wanted=1)["Progressing"]
    assert (progressing.status, progressing.reason) == ("True", "PausedByHand")
    starting = observed(replicas=1, pods=[pod_body("a", ready=False)], seen=standing_still(**HELD))
    assert found(starting, wanted=1)["Progressing"].status == "True"


def test_a_server_or_a_rollout_in_the_way_stops_progress_with_its_reason(observed: Look) -> None:
    down = replace(observed(main=3, unknown=True), redis_fault=Fault("Unreachable", "it does not respond"))
    assert (found(down)["Progressing"].status, found(down)["Progressing"].reason) == ("False", "Unreachable")
    pod = pod_body("a", ready=False)
    pod["status"]["containerStatuses"][0]["state"] = {
        "waiting": {"reason": "ImagePullBackOff", "message": ""}
    }
    stuck = found(observed(main=3, replicas=1, pods=[pod]), wanted=1)["Progressing"]
    assert (stuck.status, stuck.reason) == ("False", "ImagePullBackOff")
    still = observed(replicas=2, pods=[pod_body("a")], seen=standing_still(**HELD))
    blocked = with_workers(still, blocked=WorkerProblem("Quota", "exceeded quota"))
    assert found(blocked, wanted=2)["Progressing"].reason == "RolloutBlocked"


def test_a_stuck_rollout_or_a_lack_of_workers_that_holds_up_no_item_is_progress(observed: Look) -> None:
    quota = WorkerProblem("Quota", "exceeded quota")
    claimed = observed(main=3, replicas=2, pods=[pod_body("a")])
    assert found(with_workers(claimed, blocked=quota), wanted=2)["Progressing"].status == "True"
    empty = with_workers(observed(replicas=1), problem=quota)
    assert found(empty, wanted=1)["WorkersAvailable"].status == "False"
    assert found(empty, wanted=1)["Progressing"].status == "True"


def test_workers_that_hang_are_no_reason_for_more_workers(observed: Look) -> None:
    scaling = {"maxReplicas": 1, "targetAge": "10s"}
    crowded = replace(standing_still(**HELD), lengths={**standing_still().lengths, State.MAIN: 900})
    look = observed(replicas=1, pods=[pod_body("a")], seen=crowded, scaling=scaling)
    before = {"type": "ScalingLimited", "status": "True", "reason": "MaxReplicas", "message": "raise it"}
    look = replace(look, resource=replace(look.resource, status={"conditions": [before]}))
    planned = plan(look, Memory(), now=0.0, clock=0.0)
    status = {one["type"]: one for one in planned.status["conditions"]}
    assert status["Progressing"]["reason"] == "NoProgress"
    limited = status["ScalingLimited"]
    assert (limited["status"], limited["reason"]) == ("False", "NoProgress")
    assert (planned.replicas, planned.status["scaling"]["rule"]) == (None, "NoProgress")
    assert planned.status["scaling"]["reason"] == NO_PROGRESS_REASON
    assert "needed" not in planned.status["scaling"]


def test_a_pause_is_no_reason_for_more_workers(observed: Look) -> None:
    scaling = {"maxReplicas": 1, "targetAge": "10s"}
    paused = standing_still(**HELD, paused=True)
    look = observed(replicas=1, pods=[pod_body("a")], seen=paused, scaling=scaling)
    before = {"type": "ScalingLimited", "status": "True", "reason": "MaxReplicas", "message": "raise it"}
    look = replace(look, resource=replace(look.resource, status={"conditions": [before]}))
    conditions = plan(look, Memory(), now=0.0, clock=0.0).status["conditions"]
    assert [one["status"] for one in conditions if one["type"] == "ScalingLimited"] == ["False"]
