"""When the end of a block claims the loop's next items: only if the program asks for them at once."""

from claimq.worker.backends import BLOCKING
from claimq.worker.calls import Calls
from claimq.worker.item import Item
from claimq.worker.loops.loop import Loop

ME = "this thread"


def items(count: int) -> list[Item]:
    calls = Calls(BLOCKING, Item, "/nowhere", 0.0)
    made = [Item(calls, f"w/{n}", str(n), b"", None, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0) for n in range(count)]
    for item in made:
        item.claimed_by = ME
    return made


def after_a_block(gap: float) -> tuple[Loop[Item], Item]:
    """A loop whose program asked for its second item so many seconds after the block of the first, and that item."""
    loop: Loop[Item] = Loop()
    first, second = items(2)
    assert not loop.claims_after(loop.begin(first, 99.0), ME)
    loop.note_end(100.0)
    loop.note_asked(100.0 + gap)
    return loop, loop.begin(second, 101.0)


def test_a_loop_that_asks_at_once_claims_at_the_end_of_its_next_block() -> None:
    loop, item = after_a_block(0.009)
    assert loop.claims_after(item, ME)


def test_a_loop_with_slow_code_behind_its_block_does_not() -> None:
    loop, item = after_a_block(0.011)
    assert not loop.claims_after(item, ME)


def test_a_loop_that_has_items_claims_no_others() -> None:
    loop, item = after_a_block(0.0)
    loop.claimed += items(1)
    assert not loop.claims_after(item, ME)


def test_a_block_that_ends_after_its_loop_went_on_claims_nothing() -> None:
    loop, item = after_a_block(0.0)
    loop.note_asked(100.1)
    assert not loop.claims_after(item, ME)


def test_an_item_without_a_block_makes_a_loop_slow() -> None:
    loop, _ = after_a_block(0.0)
    loop.note_asked(100.0)
    assert not loop.claims_after(loop.begin(items(1)[0], 101.0), ME)


def test_a_block_in_another_thread_claims_nothing() -> None:
    loop, item = after_a_block(0.0)
    assert not loop.claims_after(item, "another thread")


def test_only_a_block_of_less_than_a_millisecond_is_short() -> None:
    loop: Loop[Item] = Loop()
    loop.begin(items(1)[0], 100.0)
    assert loop.is_short(100.0009)
    assert not loop.is_short(100.0011)


def test_others_run_after_two_milliseconds_of_short_blocks() -> None:
    loop: Loop[Item] = Loop()
    assert [loop.ends_turn(now) for now in (100.0, 100.0019, 100.0021, 100.003)] == [True, False, True, False]
