"""When the end of a block claims the loop's next items: only if the program asks for them at once."""

from claimq.worker.backends import BLOCKING
from claimq.worker.client import Client
from claimq.worker.item import Item
from claimq.worker.loop import Loop

ME = "this thread"


def items(count: int) -> list[Item]:
    client = Client(BLOCKING, Item, "/nowhere", session=False, patience=0)
    made = [Item(client, f"w/{n}", str(n), b"", None, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0) for n in range(count)]
    for item in made:
        item.claimed_by = ME
    return made


def after_a_block(gap: float) -> tuple[Loop[Item], Item]:
    """A loop whose program asked for its second item so many seconds after the block of the first, and that item."""
    loop: Loop[Item] = Loop(1)
    first, second = items(2)
    loop.add([first])
    assert not loop.claims_after(loop.begin(), ME)
    loop.note_end(100.0)
    loop.note_asked(100.0 + gap)
    loop.add([second])
    return loop, loop.begin()


def test_a_loop_that_asks_at_once_claims_at_the_end_of_its_next_block() -> None:
    loop, item = after_a_block(0.009)
    assert loop.claims_after(item, ME)


def test_a_loop_with_slow_code_behind_its_block_does_not() -> None:
    loop, item = after_a_block(0.011)
    assert not loop.claims_after(item, ME)


def test_a_loop_that_has_items_claims_no_others() -> None:
    loop, item = after_a_block(0.0)
    loop.add(items(1))
    assert not loop.claims_after(item, ME)


def test_a_block_that_ends_after_its_loop_went_on_claims_nothing() -> None:
    loop, item = after_a_block(0.0)
    loop.note_asked(100.1)
    assert not loop.claims_after(item, ME)


def test_an_item_without_a_block_makes_a_loop_slow() -> None:
    loop, _ = after_a_block(0.0)
    loop.note_asked(100.0)
    loop.add(items(1))
    assert not loop.claims_after(loop.begin(), ME)


def test_a_block_in_another_thread_claims_nothing() -> None:
    loop, item = after_a_block(0.0)
    assert not loop.claims_after(item, "another thread")


def test_a_loop_whose_sidecar_has_no_such_request_claims_nothing_more() -> None:
    loop, item = after_a_block(0.0)
    loop.is_served = False
    assert not loop.claims_after(item, ME)


def test_what_is_claimed_ahead_is_not_begun() -> None:
    loop: Loop[Item] = Loop(2)
    loop.add(items(2))
    first = loop.begin()
    assert [first.is_begun, *(item.is_begun for item in loop.ahead)] == [True, False]
