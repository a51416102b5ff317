"""Recent verdicts recognize repeated requests."""

from claimq_sidecar.claims.recent_verdicts import RecentVerdicts


def test_a_request_is_repeated_only_with_the_same_verb() -> None:
    recent = RecentVerdicts()
    recent.note("fail", [("w/1", "requeued")])
    assert recent.repeated("fail", ["w/1", "w/2"]) == {"w/1": "requeued"}
    assert recent.repeated("done", ["w/1"]) == {}


def test_the_number_of_remembered_verdicts_is_bounded() -> None:
    recent = RecentVerdicts(remembered=2)
    for number in range(4):
        recent.note("done", [(f"w/{number}", "done")])
    assert len(recent) == 2
    assert list(recent.repeated("done", ["w/0", "w/1", "w/2", "w/3"])) == ["w/2", "w/3"]
