"""Where an item of main is, if clients take turns."""

from __future__ import annotations

import itertools

import pytest

from claimq.queue.reading.listing import PlaceInTurn, places_in_turn


def one_by_one(lengths: dict[bytes, int]) -> list[PlaceInTurn]:
    """All places, by taking an item of each client that has one, turn after turn."""
    longest = max(lengths.values(), default=0)
    return [(client, turn) for turn in range(longest) for client in lengths if lengths[client] > turn]


@pytest.mark.parametrize("lengths", list(itertools.product(range(4), repeat=4)))
def test_each_page_is_a_part_of_all_turns(lengths: tuple[int, ...]) -> None:
    by_client: dict[bytes, int] = dict(zip((b"a", b"b", b"c", b"-"), lengths, strict=True))
    places = one_by_one(by_client)
    for skip in range(len(places) + 2):
        assert list(places_in_turn(list(by_client.items()), skip)) == places[skip:]


def test_a_long_list_of_one_client_takes_no_longer() -> None:
    lengths = [(b"%d" % client, 1) for client in range(1000)] + [(b"noisy", 10**12)]
    page = list(itertools.islice(places_in_turn(lengths, 10**12 - 500), 2))
    assert page == [(b"noisy", 10**12 - 1500), (b"noisy", 10**12 - 1499)]
