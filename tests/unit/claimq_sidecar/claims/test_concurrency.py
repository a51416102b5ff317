"""Who may have how many items in hand: any claims, in any order, beside what the app settles, takes over or loses."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from claimq_sidecar.claims.concurrency import Concurrency, Turn


def places_of(turns: list[Turn]) -> list[int]:
    return [turn.places for turn in turns]


def test_a_claim_gets_what_is_free_and_the_next_one_waits() -> None:
    places = Concurrency(3, lambda: 0)
    assert places_of([places.ask(2), places.ask(10), places.ask(1)]) == [2, 1, 0]
    assert places.waiting == 1


def test_without_a_limit_nobody_waits() -> None:
    places = Concurrency(None, lambda: 1_000_000)
    assert places_of([places.ask(1000), places.ask(1000)]) == [1000, 1000]
    assert (places.limit, places.waiting) == (None, 0)


def test_what_a_claim_did_not_get_is_for_the_next_in_line() -> None:
    hand: list[str] = []
    places = Concurrency(3, lambda: len(hand))
    first, second, third = places.ask(3), places.ask(1), places.ask(5)
    hand.append("an item")
    places.leave(first)
    assert places_of([second, third]) == [1, 1]
    assert second.given.is_set()


def test_a_claim_for_many_is_not_passed_by_claims_for_one() -> None:
    hand = ["an item", "another"]
    places = Concurrency(2, lambda: len(hand))
    many, one = places.ask(2), places.ask(1)
    hand.pop()
    places.look()
    assert places_of([many, one]) == [1, 0]


def test_who_leaves_the_line_holds_nobody_up() -> None:
    hand = ["an item"]
    places = Concurrency(1, lambda: len(hand))
    gone, waiting = places.ask(1), places.ask(1)
    places.leave(gone)
    hand.clear()
    places.look()
    assert places_of([gone, waiting]) == [0, 1]


def test_nothing_is_free_while_a_session_took_over_more_than_there_may_be() -> None:
    hand = ["taken over"] * 5
    places = Concurrency(2, lambda: len(hand))
    waiting = places.ask(1)
    del hand[2:]
    places.look()
    assert (places.free(9), waiting.places) == (0, 0)
    hand.pop()
    places.look()
    assert waiting.places == 1


class AnyClaims(RuleBasedStateMachine):
    """`asked` has all turns that were not left, in the order of asking; `hand` is what the app holds."""

    def __init__(self) -> None:
        super().__init__()
        self.hand = 0
        self.asked: list[Turn] = []
        self.given_before: list[Turn] = []

    @initialize(limit=st.integers(1, 6))
    def start(self, limit: int) -> None:
        self.limit = limit
        self.concurrency = Concurrency(limit, lambda: self.hand)

    def given(self) -> list[Turn]:
        return [turn for turn in self.asked if turn.given.is_set()]

    @rule(most=st.integers(1, 10))
    def a_claim_asks(self, most: int) -> None:
        self.asked.append(self.concurrency.ask(most))

    @precondition(lambda self: self.given())
    @rule(data=st.data())
    def a_claim_is_answered(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.given()))
        self.hand += data.draw(st.integers(0, turn.places))
        self.asked.remove(turn)
        self.concurrency.leave(turn)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def a_client_hangs_up(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.asked))
        self.asked.remove(turn)
        self.concurrency.leave(turn)

    @precondition(lambda self: self.hand)
    @rule(data=st.data())
    def items_leave_the_hands(self, data: st.DataObject) -> None:
        self.hand -= data.draw(st.integers(1, self.hand))
        self.concurrency.look()

    @rule(count=st.integers(1, 8))
    def a_session_takes_items_over(self, count: int) -> None:
        self.hand += count

    @invariant()
    def nothing_is_given_beyond_the_limit(self) -> None:
        given = self.given()
        assert all(1 <= turn.places <= turn.most for turn in given)
        # What a session takes over may come on top of what was given before: only then is there more than the limit.
        if any(turn not in self.given_before for turn in given):
            assert sum(turn.places for turn in given) + self.hand <= self.limit
        self.given_before = given

    @invariant()
    def nobody_waits_while_a_place_is_free(self) -> None:
        waiting = [turn for turn in self.asked if not turn.given.is_set()]
        assert self.concurrency.waiting == len(waiting)
        assert not waiting or sum(turn.places for turn in self.given()) + self.hand >= self.limit

    @invariant()
    def turns_are_given_in_the_order_of_asking(self) -> None:
        flags = [turn.given.is_set() for turn in self.asked]
        assert flags == sorted(flags, reverse=True)


TestAnyClaims = AnyClaims.TestCase
TestAnyClaims.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
