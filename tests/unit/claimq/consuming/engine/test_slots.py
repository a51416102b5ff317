"""The concurrency limit: who gets slots, in any order of claims, verdicts, adoptions and disconnects."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from claimq.consuming.engine.slots import SlotRequest, Slots


def slots_of(*requests: SlotRequest) -> list[int]:
    return [request.slots for request in requests]


def used(limit: int, count: int) -> Slots:
    """A limit with so many slots in use."""
    concurrency = Slots(limit)
    concurrency.take(count)
    return concurrency


def test_a_request_gets_the_free_slots_and_the_next_one_waits() -> None:
    concurrency = Slots(3)
    assert slots_of(concurrency.request(2), concurrency.request(10), concurrency.request(1)) == [2, 1, 0]
    assert (concurrency.waiting, concurrency.in_use, concurrency.is_full) == (1, 3, True)


def test_without_a_limit_no_request_waits() -> None:
    concurrency = Slots(None)
    concurrency.take(1_000_000)
    assert slots_of(concurrency.request(1000), concurrency.request(1000)) == [1000, 1000]
    assert (concurrency.limit, concurrency.waiting, concurrency.is_full) == (None, 0, False)


def test_slots_that_a_request_did_not_need_go_to_the_next() -> None:
    concurrency = Slots(3)
    first, second, third = concurrency.request(3), concurrency.request(1), concurrency.request(5)
    concurrency.take(1)  # it got one item
    concurrency.finish(first)
    assert slots_of(second, third) == [1, 1]
    assert second.granted.is_set()


def test_requests_for_one_do_not_overtake_a_request_for_many() -> None:
    concurrency = used(2, 2)
    many, one = concurrency.request(2), concurrency.request(1)
    concurrency.release(1)
    assert slots_of(many, one) == [1, 0]


def test_a_request_that_is_finished_while_it_waits_blocks_no_other() -> None:
    concurrency = used(1, 1)
    gone, waiting = concurrency.request(1), concurrency.request(1)
    concurrency.finish(gone)
    concurrency.release(1)
    assert slots_of(gone, waiting) == [0, 1]


def test_a_higher_limit_grants_and_a_lower_one_takes_nothing_away() -> None:
    concurrency = used(2, 2)
    waiting, next_one = concurrency.request(1), concurrency.request(5)
    concurrency.resize(4)
    assert slots_of(waiting, next_one) == [1, 1]
    concurrency.resize(0)
    concurrency.release(2)
    assert (concurrency.in_use, slots_of(concurrency.request(1))) == (2, [0])


def test_a_request_is_finished_once() -> None:
    concurrency = Slots(2)
    request = concurrency.request(2)
    concurrency.finish(request)
    concurrency.finish(request)
    assert concurrency.in_use == 0


def test_no_slot_is_free_while_adopted_claims_exceed_the_limit() -> None:
    concurrency = used(2, 5)
    waiting = concurrency.request(1)
    concurrency.release(3)
    assert (concurrency.is_full, waiting.slots) == (True, 0)
    concurrency.release(1)
    assert waiting.slots == 1


class AnyClaims(RuleBasedStateMachine):
    """`requests`: all that are not finished, in order of arrival. `in_flight`: the items of the app."""

    def __init__(self) -> None:
        super().__init__()
        self.in_flight = 0
        self.requests: list[SlotRequest] = []
        self.granted_before: list[SlotRequest] = []

    @initialize(limit=st.integers(1, 6))
    def start(self, limit: int) -> None:
        self.limit = limit
        self.concurrency = Slots(limit)

    def granted(self) -> list[SlotRequest]:
        return [request for request in self.requests if request.granted.is_set()]

    @rule(most=st.integers(1, 10))
    def a_claim_arrives(self, most: int) -> None:
        self.requests.append(self.concurrency.request(most))

    @precondition(lambda self: self.granted())
    @rule(data=st.data())
    def a_claim_is_answered(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.granted()))
        items = data.draw(st.integers(0, request.slots))
        self.in_flight += items
        self.concurrency.take(items)
        self.requests.remove(request)
        self.concurrency.finish(request)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_client_disconnects(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        self.requests.remove(request)
        self.concurrency.finish(request)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def claims_end(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, self.in_flight))
        self.in_flight -= count
        self.concurrency.release(count)

    @rule(count=st.integers(1, 8))
    def a_session_adopts_claims(self, count: int) -> None:
        self.in_flight += count
        self.concurrency.take(count)

    @invariant()
    def every_slot_is_counted_once(self) -> None:
        assert self.concurrency.in_use == sum(slots_of(*self.granted())) + self.in_flight

    @invariant()
    def no_slot_is_granted_beyond_the_limit(self) -> None:
        granted = self.granted()
        assert all(1 <= request.slots <= request.most for request in granted)
        # Adopted claims can exceed the limit on top of slots that were granted before, but then none is granted.
        if any(request not in self.granted_before for request in granted):
            assert sum(slots_of(*granted)) + self.in_flight <= self.limit
        self.granted_before = granted

    @invariant()
    def no_request_waits_while_a_slot_is_free(self) -> None:
        waiting = [request for request in self.requests if not request.granted.is_set()]
        assert self.concurrency.waiting == len(waiting)
        assert not waiting or sum(slots_of(*self.granted())) + self.in_flight >= self.limit

    @invariant()
    def requests_are_granted_in_order_of_arrival(self) -> None:
        flags = [request.granted.is_set() for request in self.requests]
        assert flags == sorted(flags, reverse=True)


TestAnyClaims = AnyClaims.TestCase
TestAnyClaims.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
