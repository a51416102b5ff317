"""What is in hand and what was settled, as tables with time as an argument."""

from claimq.model import Claim, Item
from claimq_sidecar.claims.in_flight import InFlight
from claimq_sidecar.claims.recent_verdicts import RecentVerdicts


def claim(number: int, lease: float = 30.0) -> Claim:
    return Claim(f"w/{number}", Item(str(number), b"", 0.0, 0.0), "w", 1000.0, 1000.0 + lease)


def test_claims_are_in_hand_in_order_until_they_are_let_go() -> None:
    hands = InFlight()
    hands.take([claim(1), claim(2)], "s", 5.0)
    hands.take([claim(3)], None, 6.0)
    assert (hands.all(), len(hands), hands.of_session("s")) == (["w/1", "w/2", "w/3"], 3, ["w/1", "w/2"])
    hands.let_go(["w/1", "w/3", "w/9"])
    assert (hands.all(), hands.of_session("s"), "w/2" in hands) == (["w/2"], ["w/2"], True)
    hands.let_go(["w/2"])
    assert (len(hands), hands.shortest_lease()) == (0, None)


def test_only_claims_of_sessions_are_renewed() -> None:
    hands = InFlight()
    hands.take([claim(1, lease=9.0)], "s", 0.0)
    hands.take([claim(2, lease=1.0)], None, 0.0)
    assert (hands.to_renew(5.0), hands.shortest_lease()) == (["w/1"], 9.0)


def test_a_plain_claim_is_forgotten_when_its_lease_is_over_unless_renewed() -> None:
    hands = InFlight()
    hands.take([claim(1, lease=3.0), claim(2, lease=3.0)], None, 10.0)
    assert hands.expire(12.9) == []
    hands.renewed(["w/2", "w/9"], 12.0, 5.0)
    assert hands.expire(13.0) == ["w/1"]
    assert hands.expire(16.9) == []
    assert hands.expire(17.0) == ["w/2"]


def test_a_claim_of_a_session_never_expires_here() -> None:
    hands = InFlight()
    hands.take([claim(1, lease=1.0)], "s", 0.0)
    assert hands.expire(1000.0) == []


def test_beyond_the_processing_time_a_claim_is_overdue_and_not_renewed() -> None:
    hands = InFlight(processing_timeout=10.0)
    hands.take([claim(1)], "s", 0.0)
    hands.take([claim(2)], "s", 5.0)
    assert (hands.to_renew(9.9), hands.overdue(9.9)) == (["w/1", "w/2"], [])
    assert (hands.to_renew(10.0), hands.overdue(10.0)) == (["w/2"], ["w/1"])


def test_a_lost_claim_is_dropped_but_an_overdue_one_is_still_worked_on() -> None:
    hands = InFlight(processing_timeout=10.0)
    hands.take([claim(1)], "s", 0.0)
    hands.take([claim(2)], "s", 5.0)
    hands.to_renew(12.0)
    hands.lost(["w/1", "w/2", "w/9"])
    assert hands.all() == ["w/1"]


def test_a_claim_that_another_session_takes_over_is_held_once() -> None:
    hands = InFlight()
    hands.hold("w/1", "old", 0.0, 30.0)
    hands.hold("w/1", "new", 1.0, 30.0)
    assert (hands.of_session("old"), hands.of_session("new"), len(hands)) == ([], ["w/1"], 1)


def test_the_oldest_claim_is_the_one_longest_in_hand() -> None:
    hands = InFlight()
    assert hands.oldest(5.0) == 0.0
    hands.take([claim(1)], None, 1.0)
    hands.take([claim(2)], None, 4.0)
    assert hands.oldest(5.0) == 4.0


def test_the_same_verb_again_is_a_repetition_and_another_is_not() -> None:
    settled = RecentVerdicts()
    settled.note("w/1", "fail", "requeued")
    assert settled.repeated("fail", ["w/1", "w/2"]) == {"w/1": "requeued"}
    assert settled.repeated("done", ["w/1"]) == {}


def test_the_memory_of_verdicts_is_bounded() -> None:
    settled = RecentVerdicts(remembered=2)
    for number in range(4):
        settled.note(f"w/{number}", "done", "done")
    assert len(settled) == 2
    assert list(settled.repeated("done", ["w/0", "w/1", "w/2", "w/3"])) == ["w/2", "w/3"]
