"""How many items ``consume`` claims at once where its caller does not say."""

import pytest

from claimq.consuming.engine.chunk_size import AHEAD_SECONDS, ChunkSize

START = 1000.0


def sizes(chunks: int, seconds_for_an_item: float) -> list[int]:
    """The sizes of so many chunks, when a handler begins with each item of one before the next is claimed."""
    size, now = ChunkSize(START), START
    found: list[int] = []
    for _ in range(chunks):
        for _ in range(size.size):
            now += seconds_for_an_item
            size.note_begun()
        found.append(size.next_size(now))
    return found


def test_it_doubles_to_the_limit_where_handlers_are_quick() -> None:
    assert sizes(9, 0.000_1) == [2, 4, 8, 16, 32, 64, 100, 100, 100]


def test_nothing_is_claimed_ahead_of_slow_handlers() -> None:
    assert sizes(3, AHEAD_SECONDS) == [1, 1, 1]
    assert sizes(3, 60.0) == [1, 1, 1]


@pytest.mark.parametrize(("seconds", "size"), [(0.001, 50), (0.005, 10), (0.02, 2), (0.03, 1)])
def test_a_chunk_is_what_handlers_begin_within_a_moment(seconds: float, size: int) -> None:
    assert sizes(12, seconds * 0.999)[-1] == size


def test_it_shrinks_at_once_when_handlers_become_slow_or_items_rare() -> None:
    size = ChunkSize(START)
    size.size = 100
    size.note_begun()
    assert size.next_size(START + 1) == 1


def test_it_begins_again_with_one_after_claims_that_were_not_reached() -> None:
    size = ChunkSize(START)
    size.size = 64
    assert size.reset(START + 1) == size.size == 1
    size.note_begun()
    assert size.next_size(START + 1.001) == 2


def test_two_chunks_at_the_same_instant_do_not_divide_by_zero() -> None:
    size = ChunkSize(START)
    size.note_begun()
    assert size.next_size(START) == 2
    assert size.next_size(START) == 1
