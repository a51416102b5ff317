"""What `claimq doctor` does with the checks of all parts."""

from claimq_cli.commands.checking.cluster_checks import status_checks
from claimq_cli.commands.checking.diagnosis import Commands, each_queue_once, ok, stands_still


def test_a_queue_that_stands_still_is_one_problem_with_its_whole_fix() -> None:
    """The operator's condition and the look at the queue both find it."""
    fix = "see the log of a, and if it hangs, replace it: claimq drain q a; the same for the others: claimq drain q b"
    stuck = {
        "type": "Progressing",
        "status": "False",
        "reason": "NoProgress",
        "message": f"no progress; {fix}",
    }
    body = {
        "metadata": {"name": "q", "generation": 1},
        "status": {"observedGeneration": 1, "conditions": [stuck]},
    }
    (condition,) = status_checks(body, Commands())
    look = stands_still("queue q: oldest item", "q", f"no progress; {fix}")
    other = stands_still("queue p: oldest item", "p", f"no progress; {fix}")
    assert each_queue_once([condition, ok("clock", "right"), look, other]) == [
        ok("clock", "right"),
        look,
        other,
    ]
    assert each_queue_once([condition, other]) == [condition, other]
    assert (look.message, look.fix, condition.fix) == ("no progress", fix, fix)
