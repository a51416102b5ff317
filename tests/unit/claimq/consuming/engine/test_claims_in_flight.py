"""The claims in flight, with the time as an argument."""

from claimq.consuming.engine.claims_in_flight import ClaimsInFlight
from claimq.consuming.engine.slots import Slots
from claimq.model import Claim, Item


def never(_: str) -> bool:
    """No verdict is in progress."""
    return False


def claim(number: int, lease: float = 30.0) -> Claim:
    return Claim(f"w/{number}", Item(str(number), b"", 0.0, 0.0), "w", 1000.0, 1000.0 + lease)


def no_claims(processing_timeout: float | None = None) -> ClaimsInFlight:
    return ClaimsInFlight(Slots(None), processing_timeout)


def test_claims_are_in_flight_in_claim_order_until_they_are_removed() -> None:
    claims = no_claims()
    claims.add([claim(1), claim(2)], "s", 5.0)
    claims.add([claim(3)], None, 6.0)
    assert (claims.all(), len(claims), claims.of_session("s")) == (["w/1", "w/2", "w/3"], 3, ["w/1", "w/2"])
    claims.remove(["w/1", "w/3", "w/9"])
    assert (claims.all(), claims.of_session("s"), "w/2" in claims) == (["w/2"], ["w/2"], True)
    claims.remove(["w/2"])
    assert (len(claims), claims.shortest_lease()) == (0, None)


def test_claims_with_several_leases_stay_in_claim_order() -> None:
    claims = no_claims()
    claims.add([claim(1, lease=2.0), claim(2, lease=1.0), claim(3, lease=2.0)], "s", 0.0)
    assert (claims.all(), claims.of_session("s")) == (["w/1", "w/2", "w/3"], ["w/1", "w/2", "w/3"])
    assert claims.shortest_lease() == 1.0


def test_each_claim_uses_one_slot() -> None:
    concurrency = Slots(3)
    claims = ClaimsInFlight(concurrency)
    claims.add([claim(1, lease=1.0), claim(2), claim(3)], None, 0.0)
    assert concurrency.in_use == 3
    claims.expire(1.0, never)
    claims.lost(["w/2", "w/1"], 1.0)
    claims.remove(["w/1", "w/2"])
    assert concurrency.in_use == 1


def test_adopting_a_claim_again_grants_no_slot() -> None:
    concurrency = Slots(1)
    claims = ClaimsInFlight(concurrency)
    claims.adopt("w/1", "old", 0.0, 30.0)
    waiting = concurrency.request(1)
    claims.adopt("w/1", "new", 1.0, 30.0)
    assert (concurrency.in_use, waiting.slots) == (1, 0)


def test_only_claims_of_sessions_are_renewed() -> None:
    claims = no_claims()
    claims.add([claim(1, lease=9.0)], "s", 0.0)
    claims.add([claim(2, lease=1.0)], None, 0.0)
    assert (claims.to_renew(5.0), claims.shortest_lease()) == (["w/1"], 9.0)


def test_a_claim_without_a_session_expires_with_its_lease() -> None:
    claims = no_claims()
    claims.add([claim(1, lease=3.0), claim(2, lease=3.0)], None, 10.0)
    assert claims.expire(12.9, never) == []
    claims.renewed(["w/2", "w/9"], 12.0, 5.0)
    assert claims.expire(13.0, never) == ["w/1"]
    assert claims.expire(16.9, never) == []
    assert claims.expire(17.0, never) == ["w/2"]


def test_a_claim_of_a_session_does_not_expire() -> None:
    claims = no_claims()
    claims.add([claim(1, lease=1.0)], "s", 0.0)
    assert claims.expire(1000.0, never) == []


def test_after_the_processing_timeout_a_claim_is_overdue_and_not_renewed() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1)], "s", 0.0)
    claims.add([claim(2)], "s", 5.0)
    assert (claims.to_renew(9.9), claims.overdue(9.9)) == (["w/1", "w/2"], [])
    assert (claims.to_renew(10.0), claims.overdue(10.0)) == (["w/2"], ["w/1"])


def test_a_lost_claim_is_removed_unless_it_is_overdue() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1)], "s", 0.0)
    claims.add([claim(2)], "s", 5.0)
    claims.to_renew(12.0)
    claims.lost(["w/1", "w/2", "w/9"], 12.0)
    assert claims.all() == ["w/1"]


def test_the_processing_timeout_continues_when_a_claim_is_taken_from_the_app() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1)], "s", 0.0)
    claims.lost(["w/1"], 3.0)
    assert (claims.all(), claims.overdue(9.9), claims.overdue(10.0)) == ([], [], ["w/1"])


def test_without_a_timeout_an_app_has_five_minutes_after_its_item_was_taken() -> None:
    claims = no_claims()
    claims.add([claim(1), claim(2)], "s", 0.0)
    claims.lost(["w/1"], 1000.0)
    assert (claims.overdue(1299.9), claims.overdue(1300.0)) == ([], ["w/1"])


def test_an_app_that_answers_for_a_taken_item_is_not_overdue() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1), claim(2)], "s", 0.0)
    claims.lost(["w/1", "w/2"], 3.0)
    claims.taken.answered(["w/1", "w/9"])
    assert claims.overdue(20.0) == ["w/2"]


def test_what_was_taken_is_forgotten_with_its_session() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1)], "s", 0.0)
    claims.add([claim(2)], "other", 0.0)
    claims.lost(["w/1", "w/2"], 3.0)
    claims.end_session("s")
    assert claims.overdue(20.0) == ["w/2"]


def test_the_app_of_a_claim_without_a_session_may_have_ended() -> None:
    claims = no_claims(processing_timeout=10.0)
    claims.add([claim(1)], None, 0.0)
    claims.lost(["w/1"], 3.0)
    assert claims.overdue(20.0) == []


def test_a_claim_that_another_session_adopts_is_in_flight_once() -> None:
    claims = no_claims()
    claims.adopt("w/1", "old", 0.0, 30.0)
    claims.adopt("w/1", "new", 1.0, 30.0)
    assert (claims.of_session("old"), claims.of_session("new"), len(claims)) == ([], ["w/1"], 1)


def test_the_age_of_the_oldest_claim() -> None:
    claims = no_claims()
    assert claims.oldest(5.0) == 0.0
    claims.add([claim(1)], None, 1.0)
    claims.add([claim(2)], None, 4.0)
    assert claims.oldest(5.0) == 4.0


def test_the_claims_of_a_session_count_in_its_window_too() -> None:
    claims = no_claims()
    claims.adopt("w/1", "s", 0.0, 30.0)
    window = Slots(2)
    claims.limit("s", window)
    claims.add([claim(2)], "s", 0.0)
    claims.add([claim(3)], "other", 0.0)
    waiting = window.request(5)
    assert (window.in_use, waiting.slots) == (2, 0)
    claims.adopt("w/2", "other", 1.0, 30.0)
    assert (window.in_use, waiting.slots) == (2, 1)
    window.finish(waiting)
    claims.end_session("s")
    claims.remove(["w/1"])
    assert window.in_use == 1
