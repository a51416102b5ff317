"""Events: one of each reason, and only for changes."""

from collections.abc import Callable
from typing import Any

from claimq_control.decide.condition_changes import changed_conditions
from claimq_control.decide.observed import Observed
from claimq_control.decide.plan import Plan
from claimq_control.passes.worker_platform import ReleasedClaims
from claimq_control.scaling import Decision, ScalingRule, ScalingState
from claimq_control.workers import Termination
from claimq_operator.reconcile.events import (
    EventState,
    claims_returned,
    items_failed,
    workers_scaled,
)
from testkit.kubernetes.kubernetes_objects import snapshot

Look = Callable[..., Observed]


def conditions(**status: tuple[str, str]) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": is_so, "reason": why, "message": "m"}
        for kind, (is_so, why) in status.items()
    ]
    return {"conditions": listed}


def test_an_outage_causes_an_event_at_its_start_and_at_its_end() -> None:
    good, bad = (
        conditions(RedisReachable=("True", "Reachable")),
        conditions(RedisReachable=("False", "Unreachable")),
    )
    assert [note.reason for note in changed_conditions(good, bad)] == ["RedisUnreachable"]
    assert changed_conditions(bad, bad) == []
    assert [note.reason for note in changed_conditions(bad, good)] == ["RedisReachable"]


def test_a_new_queue_that_works_causes_no_event() -> None:
    assert (
        changed_conditions({}, conditions(RedisReachable=("True", "Reachable"), Stalled=("False", "No")))
        == []
    )


def test_a_stalled_queue_causes_an_event_with_its_reason() -> None:
    notes = changed_conditions({}, conditions(Stalled=("True", "SpecInvalid")))
    assert [(note.reason, note.warning) for note in notes] == [("SpecInvalid", True)]


def test_a_stuck_rollout_is_one_event_which_ready_does_not_repeat() -> None:
    works = conditions(Ready=("True", "Working"), WorkersAvailable=("True", "AllReady"))
    stuck = conditions(Ready=("True", "RolloutBlocked"), WorkersAvailable=("True", "RolloutBlocked"))
    assert [note.reason for note in changed_conditions(works, stuck)] == ["RolloutBlocked"]
    assert changed_conditions(stuck, stuck) == []


def test_a_change_of_the_number_of_workers_is_one_event_even_over_several_passes(observed: Look) -> None:
    state, look = EventState(), observed(replicas=1)
    decided = Plan(replicas=3, decision=Decision(3, ScalingRule.TARGET_AGE, "old items", ScalingState()))
    first = workers_scaled(look, decided, state)
    assert [note.message for note in first] == ["1 -> 3 workers (TargetAge): old items"]
    assert workers_scaled(look, decided, state) == []
    assert workers_scaled(look, Plan(), state) == []
    assert len(workers_scaled(look, decided, state)) == 1


def test_many_terminations_are_one_event() -> None:
    done = tuple(ReleasedClaims(Termination(str(n), "p.", True, f"cause {n}"), 2) for n in range(5))
    notes = claims_returned(done)
    assert len(notes) == 1
    assert (
        notes[0].message
        == "returned 10 claims of terminated containers: cause 0; cause 1; cause 2; and 2 more"
    )


def test_failed_items_are_counted_since_the_previous_pass(observed: Look) -> None:
    state = EventState()
    assert items_failed(observed(seen=snapshot(counters={"failed": 5})), state) == []
    assert items_failed(observed(unknown=True), state) == []
    notes = items_failed(observed(seen=snapshot(counters={"failed": 7})), state)
    assert notes[0].message.startswith("2 items moved to failed; ")


def test_failed_items_are_one_event_a_minute_with_their_sum(observed: Look) -> None:
    state, sums = EventState(), list[str]()
    for now, failed in ((0.0, 0), (1.0, 3), (2.0, 5), (60.9, 9), (61.0, 10), (61.5, 11), (500.0, 11)):
        notes = items_failed(observed(seen=snapshot(now=now, counters={"failed": failed})), state)
        sums += [note.message.partition(" ")[0] for note in notes]
    assert sums == ["3", "7", "1"]


def test_a_queue_that_was_created_again_counts_its_failed_items_from_there(observed: Look) -> None:
    state, sums = EventState(), list[str]()
    for now, failed in ((0.0, 50), (1.0, 0), (2.0, 4)):
        notes = items_failed(observed(seen=snapshot(now=now, counters={"failed": failed})), state)
        sums += [note.message.partition(" ")[0] for note in notes]
    assert sums == ["4"]


def test_a_limit_causes_one_event_when_it_is_reached() -> None:
    free, at_limit = (
        conditions(ScalingLimited=("False", "NotLimited")),
        conditions(ScalingLimited=("True", "MaxReplicas")),
    )
    notes = changed_conditions(free, at_limit)
    assert [(note.reason, note.warning) for note in notes] == [("ScalingLimited", True)]
    assert changed_conditions(at_limit, at_limit) == []
    assert changed_conditions(at_limit, free) == []


def test_another_owner_of_the_number_of_workers_is_one_event() -> None:
    auto, contested = (
        conditions(ScalingActive=("True", "Auto")),
        conditions(ScalingActive=("True", "Contested")),
    )
    notes = changed_conditions(auto, contested)
    assert [(note.reason, note.warning) for note in notes] == [("ReplicasContested", True)]
    assert changed_conditions(contested, contested) == []
