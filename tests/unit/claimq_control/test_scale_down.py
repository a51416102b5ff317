"""Which workers a scale-down removes, and in which steps."""

import random

import pytest

from claimq.model import WorkerInfo
from claimq_control.scale_down import VICTIM_COST, Marks, choose, step_down
from claimq_control.workers import WorkerState
from claimq_kubernetes.worker_pods import read_pods
from testkit.kubernetes.kubernetes_objects import pod_body, worker_name


def pods(
    *names: str, busy: tuple[str, ...] = (), costs: dict[str, int] | None = None
) -> tuple[WorkerState, ...]:
    workers = [WorkerInfo(worker_name(name), 1, 0.0) for name in busy]
    return read_pods([pod_body(name, cost=(costs or {}).get(name)) for name in names], workers, now=0.0)


def names(chosen: tuple[WorkerState, ...]) -> list[str]:
    return [pod.name for pod in chosen]


def test_idle_pods_go_before_busy_ones() -> None:
    assert names(choose(pods("a", "b", "c", busy=("b", "c")), 1)) == ["a"]


def test_a_busy_pod_goes_only_when_no_idle_one_is_left() -> None:
    assert sorted(names(choose(pods("a", "b", "c", busy=("b", "c")), 2))) == ["a", "c"]


def test_idle_pods_that_are_not_ready_go_first() -> None:
    there = read_pods([pod_body("a", ready=False), pod_body("b")], now=0.0)
    assert names(choose(there, 1)) == ["a"]


def test_of_equal_pods_the_newest_goes_first() -> None:
    there = read_pods([pod_body("a", created="2026-01-01T00:00:01Z"), pod_body("b"), pod_body("c")], now=0.0)
    assert names(choose(there, 2)) == ["a", "c"]


def test_a_terminating_pod_is_not_chosen_again() -> None:
    there = read_pods([pod_body("a", ending=True), pod_body("b")], now=0.0)
    assert names(choose(there, 2)) == ["b"]


def test_an_evicted_pod_whose_object_stays_is_no_worker_any_more() -> None:
    evicted = pod_body("a")
    evicted["status"]["phase"] = "Failed"
    assert names(read_pods([evicted, pod_body("b")], now=0.0)) == ["b"]


def test_victims_are_marked_before_the_number_is_lowered() -> None:
    step = step_down(pods("a", "b", busy=("b",)), 2, 1, Marks(), 10.0)
    assert (step.costs, step.replicas) == ({"a": -1000}, None)


def test_pods_beyond_the_deployments_number_are_not_counted_as_victims() -> None:
    # The fourth pod goes anyway: the number is 3 already.
    assert len(step_down(pods("a", "b", "c", "d"), 3, 2, Marks(), 0.0).marks.victims) == 1


def test_the_number_is_lowered_once_the_marks_have_settled() -> None:
    marked = pods("a", "b", busy=("b",), costs={"a": VICTIM_COST})
    early = step_down(marked, 2, 1, Marks(frozenset("a"), 10.0), 10.9)
    late = step_down(marked, 2, 1, Marks(frozenset("a"), 10.0), 11.0)
    assert (early.replicas, late.replicas, late.costs) == (None, 1, {})


def starting(*, is_victim_ready: bool, is_busy_ready: bool, busy: int = 1) -> tuple[WorkerState, ...]:
    """A marked victim "a", and "b" that has so many items."""
    there = [pod_body("a", cost=VICTIM_COST, ready=is_victim_ready), pod_body("b", ready=is_busy_ready)]
    return read_pods(there, [WorkerInfo(worker_name("b"), busy, 0.0)], now=0.0)


def test_a_scale_down_waits_until_a_busy_worker_is_ready() -> None:
    # Otherwise the ReplicaSet would delete that one: readiness counts more than the deletion cost.
    marks, unready = Marks(frozenset("a"), 10.0, 10.0), starting(is_victim_ready=True, is_busy_ready=False)
    assert step_down(unready, 2, 1, marks, 15.0).replicas is None
    assert step_down(starting(is_victim_ready=True, is_busy_ready=True), 2, 1, marks, 16.0).replicas == 1
    held = step_down(unready, 2, 1, marks, 3609.9)
    assert (held.replicas, held.held_by) == (None, ("b",))
    assert step_down(unready, 2, 1, marks, 3610.0).replicas == 1, "it may never be ready"
    assert step_down(unready, 2, 1, marks, 309.9, 300.0).replicas is None
    late = step_down(unready, 2, 1, marks, 310.0, 300.0)
    assert (late.replicas, late.held_by) == (1, ()), "no item may take longer"
    assert step_down(unready, 2, 1, Marks(frozenset("a"), 3609.0, 10.0), 3610.0).replicas == 1, (
        "other victims"
    )


def test_a_change_of_victims_does_not_begin_the_wait_again() -> None:
    there = pods("a", "b", "c", busy=("a",), costs={"a": VICTIM_COST})
    assert step_down(there, 3, 2, Marks(frozenset("a"), 20.0, 5.0), 30.0).marks.began_at == 5.0
    assert step_down(there, 3, 2, Marks(), 30.0).marks.began_at == 30.0


def test_a_scale_down_does_not_wait_for_a_worker_that_nothing_endangers() -> None:
    marks = Marks(frozenset("a"), 10.0, 10.0)
    as_unready = starting(is_victim_ready=False, is_busy_ready=False)
    assert step_down(as_unready, 2, 1, marks, 11.0).replicas == 1, "the costs decide between these"
    idle = starting(is_victim_ready=True, is_busy_ready=False, busy=0)
    assert step_down(idle, 2, 1, marks, 11.0).replicas == 1


def test_a_victim_that_claimed_an_item_is_replaced_by_another() -> None:
    now_busy = pods("a", "b", busy=("a",), costs={"a": VICTIM_COST})
    step = step_down(now_busy, 2, 1, Marks(frozenset("a"), 10.0), 20.0)
    assert (step.costs, step.replicas) == ({"a": 0, "b": VICTIM_COST}, None)


def test_an_old_mark_is_removed_from_a_pod_that_stays() -> None:
    step = step_down(pods("a", "b", "c", busy=("c",), costs={"c": VICTIM_COST}), 3, 2, Marks(), 0.0)
    assert step.costs["c"] == 0


def test_marks_found_after_a_restart_are_waited_for_again() -> None:
    step = step_down(pods("a", "b", busy=("b",), costs={"a": VICTIM_COST}), 2, 1, Marks(), 50.0)
    assert (step.costs, step.replicas, step.marks) == ({}, None, Marks(frozenset("a"), 50.0, 50.0))


def test_nothing_is_marked_when_all_go() -> None:
    step = step_down(pods("a", "b"), 2, 0, Marks(), 0.0)
    assert (step.costs, step.replicas) == ({}, 0)


def test_nothing_is_marked_when_missing_pods_make_up_the_surplus() -> None:
    assert step_down(pods("a"), 3, 1, Marks(), 0.0).replicas == 1


def test_a_victim_that_claimed_an_item_is_spared_and_the_others_go() -> None:
    marked = {"a": VICTIM_COST, "b": VICTIM_COST}
    there = pods("a", "b", "c", "d", busy=("b",), costs=marked)
    spared = step_down(there, 4, 2, Marks(frozenset("ab"), 10.0), 20.0)
    assert (spared.costs, spared.replicas, spared.marks.victims) == ({"b": 0}, None, frozenset("a"))
    lowered = step_down(
        pods("a", "b", "c", "d", busy=("c",), costs={"a": VICTIM_COST}),
        4,
        2,
        spared.marks,
        21.0,
    )
    assert (lowered.costs, lowered.replicas) == ({}, 3)


def test_all_busy_victims_are_spared_when_there_are_more_idle_pods() -> None:
    there = pods(*"abcde", busy=("a", "b"), costs={"a": VICTIM_COST, "b": VICTIM_COST})
    step = step_down(there, 5, 3, Marks(frozenset("ab"), 10.0), 20.0)
    assert (step.costs["a"], step.costs["b"], step.marks.victims) == (0, 0, frozenset("de"))


def test_busy_victims_go_when_all_who_stay_are_busy_too() -> None:
    there = pods("a", "b", "c", busy=("a", "b", "c"), costs={"a": VICTIM_COST, "b": VICTIM_COST})
    assert step_down(there, 3, 1, Marks(frozenset("ab"), 10.0), 20.0).replicas == 1


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_a_scale_down_makes_progress_while_pods_process_short_items(share: float) -> None:
    # Other pods are busy in each pass: a rule that needs the same victims for a second would never scale down.
    chance = random.Random(7)
    names_there = [f"pod-{number:02}" for number in range(40)]
    costs: dict[str, int] = {}
    current, wanted, marks, written, now = 40, 10, Marks(), 0, 0
    while current > wanted and now < 600:
        busy = frozenset(name for name in names_there if chance.random() < share)
        there = pods(*names_there, busy=tuple(busy), costs=costs)
        step = step_down(there, current, wanted, marks, float(now))
        now += 1
        costs |= step.costs
        marks, written = step.marks, written + len(step.costs)
        if step.replicas is not None:
            gone = [name for name in names_there if costs.get(name) == VICTIM_COST][: current - step.replicas]
            assert not busy & set(gone) or busy >= set(names_there) - set(gone)
            names_there = [name for name in names_there if name not in gone]
            current, marks = step.replicas, Marks()
    print(f"{now} looks, {written} costs written")
    assert current == wanted
