"""What people are told by events: one of a kind, and only what is news."""

from collections.abc import Callable
from typing import Any

from claimq_operator.decide.observed import Observed
from claimq_operator.decide.plan import Plan
from claimq_operator.kubernetes_api.terminations import Termination
from claimq_operator.reconcile.events import Told, changed_conditions, given_back, given_up, scaled
from claimq_operator.redis.maintenance import GivenBack
from claimq_spec.scaling import Decision, ScalingRule, ScalingState
from testkit.kubernetes_objects import snapshot

Look = Callable[..., Observed]


def conditions(**status: tuple[str, str]) -> dict[str, Any]:
    listed = [
        {"type": kind, "status": is_so, "reason": why, "message": "m"}
        for kind, (is_so, why) in status.items()
    ]
    return {"conditions": listed}


def test_an_outage_is_told_when_it_begins_and_when_it_ends() -> None:
    good, bad = (
        conditions(RedisReachable=("True", "Reachable")),
        conditions(RedisReachable=("False", "Unreachable")),
    )
    assert [note.reason for note in changed_conditions(good, bad)] == ["RedisUnreachable"]
    assert changed_conditions(bad, bad) == []
    assert [note.reason for note in changed_conditions(bad, good)] == ["RedisReachable"]


def test_a_new_queue_that_works_is_not_worth_a_word() -> None:
    assert (
        changed_conditions({}, conditions(RedisReachable=("True", "Reachable"), Stalled=("False", "No")))
        == []
    )


def test_mistakes_are_told_by_their_reason() -> None:
    notes = changed_conditions({}, conditions(Stalled=("True", "SpecInvalid")))
    assert [(note.reason, note.warning) for note in notes] == [("SpecInvalid", True)]


def test_a_rollout_that_is_blocked_is_told_once_and_not_by_ready_again() -> None:
    works = conditions(Ready=("True", "Working"), WorkersAvailable=("True", "AllReady"))
    stuck = conditions(Ready=("True", "RolloutBlocked"), WorkersAvailable=("True", "RolloutBlocked"))
    assert [note.reason for note in changed_conditions(works, stuck)] == ["RolloutBlocked"]
    assert changed_conditions(stuck, stuck) == []


def test_a_change_of_the_number_is_told_once_though_it_takes_several_passes(observed: Look) -> None:
    told, look = Told(), observed(replicas=1)
    decided = Plan(replicas=3, decision=Decision(3, ScalingRule.TARGET_AGE, "old items", ScalingState()))
    first = scaled(look, decided, told)
    assert [note.message for note in first] == ["1 -> 3 workers (TargetAge): old items"]
    assert scaled(look, decided, told) == []
    assert scaled(look, Plan(), told) == []
    assert len(scaled(look, decided, told)) == 1


def test_many_deaths_are_one_event() -> None:
    done = tuple(GivenBack(Termination(str(n), "p.", 0.0, True, f"cause {n}"), 2) for n in range(5))
    notes = given_back(done)
    assert len(notes) == 1
    assert notes[0].message == "10 claims of dead containers went back: cause 0; cause 1; cause 2; and 2 more"


def test_items_that_were_given_up_are_counted_since_the_last_pass(observed: Look) -> None:
    told = Told()
    assert given_up(observed(seen=snapshot(counters={"failed": 5})), told) == []
    assert given_up(observed(unknown=True), told) == []
    notes = given_up(observed(seen=snapshot(counters={"failed": 7})), told)
    assert notes[0].message.startswith("2 items were given up")
