"""Recent verdicts recognize repeated requests."""

from claimq.model import Verdict
from claimq_sidecar.claims.recent_verdicts import RecentVerdicts


def test_a_request_is_repeated_only_with_the_same_verb() -> None:
    recent = RecentVerdicts()
    recent.note("fail", {"w/1": Verdict.REQUEUED})
    assert recent.repeated("fail", ["w/1", "w/2"]) == {"w/1": Verdict.REQUEUED}
    assert recent.repeated("done", ["w/1"]) == {}


def test_the_number_of_remembered_verdicts_is_bounded() -> None:
    recent = RecentVerdicts(remembered=2)
    tokens = [f"w/{number}" for number in range(5)]
    for token in tokens:
        recent.note("done", {token: Verdict.DONE})
    assert len(recent) == 3
    assert list(recent.repeated("done", tokens)) == tokens[2:]


def test_the_newest_verdict_on_a_claim_counts() -> None:
    recent = RecentVerdicts(remembered=1)
    recent.note("fail", {"w/1": Verdict.REQUEUED})
    recent.note("done", {"w/1": Verdict.DONE, "w/2": Verdict.DONE})  # the claim was restored by a failover
    assert recent.repeated("fail", ["w/1"]) == {}
    assert recent.repeated("done", ["w/1"]) == {"w/1": Verdict.DONE}
