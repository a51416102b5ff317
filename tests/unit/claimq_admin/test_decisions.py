"""The numbers of a decision, which other users may have written."""

from typing import Any

import pytest

from claimq import Item, Located, State, WaitReason, Where
from claimq_admin.reads.decisions import decision_rows, needs_attention, waits_text, with_conditions


def test_the_numbers_of_a_decision_are_listed() -> None:
    inputs = {"main": 1200, "oldestAge": 90.5}
    demand = {"secondsPerItem": 2.5, "secondsPerItemError": 0.1, "maxReplicas": 10}
    assert decision_rows({"inputs": inputs, "demand": demand}) == [
        ["items waiting", "1,200", ""],
        ["age of the oldest item", "90 s", ""],
        ["seconds per item", "2.5", "0.1"],
        ["maxReplicas", "10", ""],
    ]


@pytest.mark.parametrize(
    ("estimate", "error", "texts"),
    [(7.49e-29, 0.00012, ["0", "0.0001"]), (3866, 12.345, ["3,866", "12.3"])],
    ids=["tiny", "large"],
)
def test_an_estimate_is_rounded_without_an_exponent(estimate: float, error: float, texts: list[str]) -> None:
    demand = {"arrivalsPerSecond": estimate, "arrivalsPerSecondError": error}
    assert decision_rows({"demand": demand}) == [["arrivals per second", *texts]]


@pytest.mark.parametrize(
    "odd", ["many", None, [1], {"a": 1}, True, 1e300, float("nan"), float("inf"), -1e16, 10**400]
)
def test_what_is_no_number_is_left_out(odd: Any) -> None:
    demand = {"arrivalsPerSecond": odd, "arrivalsPerSecondError": odd, "wanted": odd}
    assert decision_rows({"inputs": {"main": odd, "oldestAge": odd}, "demand": demand}) == []
    assert decision_rows({"inputs": odd, "demand": odd}) == []
    assert decision_rows({"demand": {"arrivalsPerSecond": 1.0}}) == []


def condition(kind: str, reason: str, message: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def test_a_pause_is_named_once() -> None:
    paused = condition("Suspended", "PausedByHand", "the queue is paused by ann")
    bad = condition("Ready", "Misused", "it is no queue", status="False")
    assert needs_attention([paused, bad]) == ("the queue is paused by ann", "not ready: it is no queue")
    forgotten = condition("PauseForgotten", "PausedByHand", "the queue is paused by ann; use `claimq resume`")
    assert needs_attention([paused, forgotten]) == (
        "paused for over a day: the queue is paused by ann; use `claimq resume`",
    )


def test_a_full_queue_is_named_and_a_condition_of_another_program_is_not() -> None:
    conditions = [condition("Full", "MaxWaiting", "new items are refused"), {"type": "Full"}, {}]
    assert needs_attention(conditions) == ("full: new items are refused",)


def waiting(reason: WaitReason, text: str) -> Where:
    return Where(Located(Item("one", b"", 0.0, 0.0), State.MAIN), reason, text)


@pytest.mark.parametrize(
    ("status", "causes"),
    [
        (("False", "True"), ": 0 of 2 workers ready: no node has room; maxReplicas is 2"),
        (("False", "False"), ": 0 of 2 workers ready: no node has room"),
        (("True", "True"), ": maxReplicas is 2"),
        (("True", "False"), ""),
    ],
)
def test_an_item_without_a_worker_has_the_sentences_of_conditions(
    status: tuple[str, str], causes: str
) -> None:
    unready = condition(
        "WorkersAvailable", "Unschedulable", "0 of 2 workers ready: no node has room", status[0]
    )
    limited = condition("ScalingLimited", "MaxReplicas", "maxReplicas is 2", status[1])
    decision = with_conditions({"rule": "MaxReplicas"}, [unready, limited, {}])
    assert (
        waits_text(waiting(WaitReason.NO_WORKER, "no worker is free"), decision)
        == f"no worker is free{causes}"
    )
    assert waits_text(waiting(WaitReason.BEHIND, "behind 2 items"), decision) == "behind 2 items"


def test_workers_that_are_starting_are_no_problem_but_a_cause() -> None:
    starting = condition("WorkersAvailable", "Starting", "0 of 1 workers ready, starting", "False")
    decision = with_conditions({}, [starting])
    assert "unready" not in decision
    text = waits_text(waiting(WaitReason.NO_WORKER, "no worker is free"), decision)
    assert text == "no worker is free: 0 of 1 workers ready, starting"


def test_an_item_that_waits_for_workers_that_hang_has_their_sentence() -> None:
    decision = with_conditions({}, [condition("Progressing", "NoProgress", "replace it", "False")])
    waits = {reason: waits_text(waiting(reason, "it waits"), decision) for reason in WaitReason}
    stuck = [reason for reason, text in waits.items() if text == "it waits: replace it"]
    assert stuck == [WaitReason.NO_WORKER, WaitReason.BEHIND]


def test_a_decision_has_the_sentence_of_a_queue_that_makes_no_progress() -> None:
    stuck = condition("Progressing", "NoProgress", "replace it", status="False")
    moving = condition("Progressing", "Moving", "items move")
    long = condition("Progressing", "ItemMayHang", "long item: look")
    decision = with_conditions({}, [long])
    assert decision == {"longItem": "long item: look"}
    assert waits_text(waiting(WaitReason.BEHIND, "behind 2 items"), decision) == "behind 2 items"
    assert needs_attention([long]) == ("long item: look",)
    assert with_conditions({"rule": "Target"}, [stuck]) == {"rule": "Target", "attention": "replace it"}
    assert with_conditions({"rule": "Target"}, [moving]) == {"rule": "Target"}
