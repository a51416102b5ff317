"""Which workers a scale-down takes, and in which steps."""

from claimq.model import WorkerInfo
from claimq_operator.scale_down import SETTLE_SECONDS, VICTIM_COST, Marks, choose, step_down
from claimq_operator.worker_pods import WorkerPod, read_pods
from testkit.kubernetes_objects import pod_body, worker_name


def pods(
    *names: str, busy: tuple[str, ...] = (), costs: dict[str, int] | None = None
) -> tuple[WorkerPod, ...]:
    workers = [WorkerInfo(worker_name(name), 1, 0.0) for name in busy]
    return read_pods([pod_body(name, cost=(costs or {}).get(name)) for name in names], workers)


def names(chosen: tuple[WorkerPod, ...]) -> list[str]:
    return [pod.name for pod in chosen]


def test_idle_pods_go_before_busy_ones() -> None:
    assert names(choose(pods("a", "b", "c", busy=("b", "c")), 1)) == ["a"]


def test_a_busy_pod_goes_only_when_no_idle_one_is_left() -> None:
    assert sorted(names(choose(pods("a", "b", "c", busy=("b", "c")), 2))) == ["a", "c"]


def test_of_idle_pods_those_that_cannot_claim_go_first() -> None:
    there = read_pods([pod_body("a", ready=False), pod_body("b")])
    assert names(choose(there, 1)) == ["a"]


def test_a_pod_on_its_way_out_is_not_taken_again() -> None:
    there = read_pods([pod_body("a", ending=True), pod_body("b")])
    assert names(choose(there, 2)) == ["b"]


def test_an_evicted_pod_whose_object_stays_is_no_worker_any_more() -> None:
    evicted = pod_body("a")
    evicted["status"]["phase"] = "Failed"
    assert names(read_pods([evicted, pod_body("b")])) == ["b"]


def test_victims_are_marked_before_the_number_is_lowered() -> None:
    step = step_down(pods("a", "b", busy=("b",)), 2, 1, Marks(), 10.0)
    assert (step.costs, step.may_lower) == ({"a": VICTIM_COST}, False)


def test_the_number_is_lowered_once_the_marks_have_settled() -> None:
    marked = pods("a", "b", busy=("b",), costs={"a": VICTIM_COST})
    early = step_down(marked, 2, 1, Marks(frozenset("a"), 10.0), 10.0 + SETTLE_SECONDS / 2)
    late = step_down(marked, 2, 1, Marks(frozenset("a"), 10.0), 10.0 + SETTLE_SECONDS)
    assert (early.may_lower, late.may_lower, late.costs) == (False, True, {})


def test_a_victim_that_took_an_item_meanwhile_is_spared_and_another_is_marked() -> None:
    now_busy = pods("a", "b", busy=("a",), costs={"a": VICTIM_COST})
    step = step_down(now_busy, 2, 1, Marks(frozenset("a"), 10.0), 20.0)
    assert (step.costs, step.may_lower) == ({"a": 0, "b": VICTIM_COST}, False)


def test_a_mark_of_an_earlier_time_is_taken_off_who_shall_stay() -> None:
    step = step_down(pods("a", "b", "c", busy=("c",), costs={"c": VICTIM_COST}), 3, 2, Marks(), 0.0)
    assert step.costs["c"] == 0


def test_marks_found_after_a_restart_are_waited_for_all_the_same() -> None:
    step = step_down(pods("a", "b", busy=("b",), costs={"a": VICTIM_COST}), 2, 1, Marks(), 50.0)
    assert (step.costs, step.may_lower, step.marks) == ({}, False, Marks(frozenset("a"), 50.0))


def test_nothing_is_marked_when_all_go() -> None:
    step = step_down(pods("a", "b"), 2, 0, Marks(), 0.0)
    assert (step.costs, step.may_lower) == ({}, True)


def test_nothing_is_marked_when_pods_that_are_not_there_yet_make_up_the_surplus() -> None:
    assert step_down(pods("a"), 3, 1, Marks(), 0.0).may_lower
