"""Which clients delay others: by their shares of the slots and of the time, and by who waits."""

import pytest

from claimq.limits import Neighbour
from claimq.waiting.neighbours import MOST_NEIGHBOURS, ClientUse, neighbours


def use(client: str, busy: int = 0, seconds: float = 0.0, waited: float | None = None) -> ClientUse:
    return ClientUse(client, busy, seconds, waited)


QUIET = use("quiet", waited=8.0)


def test_a_client_with_most_slots_is_named_with_what_it_delays() -> None:
    uses = [use("heavy", 9, 90.0, 60.0), use("light", 1, 10.0), QUIET, use("other", waited=2.0)]
    assert neighbours(uses, 3) == (Neighbour("heavy", 0.9, 0.9, 2, 8.0),)


def test_clients_beyond_the_sample_are_counted_as_delayed() -> None:
    (heavy,) = neighbours([use("heavy", 10, 10.0), QUIET], 5000)
    assert heavy.delayed_clients == 5000


def test_three_heavy_clients_that_are_equal_are_all_named_beside_a_quiet_one() -> None:
    heavy = [use(name, 3, 30.0, 90.0) for name in "cab"]
    named = neighbours([*heavy, use("quiet", 1, 0.1, 5.0)], 4)
    assert [(client.client, client.delayed_clients) for client in named] == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.parametrize(
    ("uses", "reason"),
    [
        ([use("heavy", 10, 10.0)], "no other client waits"),
        ([use("heavy", 10, 10.0, 99.0)], "only its own items wait"),
        ([use("heavy", 10, 10.0), use("quiet", waited=0.9)], "the others have just come"),
        ([use(name, 5, 50.0, 9.0) for name in "abcd"], "all have the same"),
        (
            [use("heavy", 1, 50.0), use("quiet", waited=9.0), *(use(f"c{n}", 1, 1.0) for n in range(9))],
            "10 % of slots",
        ),
        ([use("heavy", 9, 1.0), *(use(f"c{n}", 1, 11.0) for n in range(9)), QUIET], "1 % of the time"),
        (
            [use("heavy", 4, 40.0), use("half", 2, 20.0, 9.0), use("c", 4, 40.0)],
            "the other has half of its slots",
        ),
        ([QUIET], "nothing is in progress"),
    ],
)
def test_no_client_is_named_if(uses: list[ClientUse], reason: str) -> None:
    assert neighbours(uses, len(uses)) == (), reason


def test_a_client_may_have_as_much_more_as_its_weight_says() -> None:
    paying, free = ClientUse("paying", 9, 9.0, None, weight=10), ClientUse("free", 1, 1.0, 9.0)
    assert neighbours([paying, free], 1) == ()
    assert neighbours([ClientUse("paying", 9, 9.0, None), free], 1) != ()
    assert (
        neighbours([ClientUse("paying", 9, 9.0, None), ClientUse("free", 1, 1.0, 9.0, weight=0.1)], 1) == ()
    )


def test_at_most_five_are_named_those_with_most_slots_first() -> None:
    uses = [use(f"c{n}", 20 + n, 20.0 + n) for n in range(7)]
    named = neighbours([*uses, QUIET], 1)
    assert [client.client for client in named] == ["c6", "c5", "c4", "c3", "c2"]
    assert len(named) == MOST_NEIGHBOURS


def test_items_without_a_client_have_words_of_their_own() -> None:
    (none,) = neighbours([ClientUse(None, 5, 5.0, None), QUIET], 1)
    assert none.name == "no client"
