"""What a caller can get wrong: refused before anything is stored, with what would be right."""

import pytest

import claimq
from claimq import InvalidName, ItemTooLarge, NewItem, Policy, ReliableQueue


@pytest.mark.parametrize("name", ["{q}", "a:b", "x" * 300, "", "a b", "grün"])
async def test_a_queue_name_that_cannot_be_one_is_refused_at_once(store: claimq.Server, name: str) -> None:
    with pytest.raises(InvalidName):
        store.queue(name)
    with pytest.raises(InvalidName):
        await store.enqueue({name: ["a"]})


async def test_names_that_cannot_be_used_are_refused_before_anything_is_stored(
    queue: ReliableQueue, store: claimq.Server
) -> None:
    for items in ([NewItem("a"), NewItem("b", id="a b")], [NewItem("a"), NewItem("b", client="-")]):
        with pytest.raises(InvalidName):
            await queue.enqueue_many(items)
    with pytest.raises(InvalidName):
        store.queue("q", worker="a/b")
    assert await queue.length() == 0


async def test_a_payload_of_another_type_in_a_later_place_refuses_the_whole_call(
    queue: ReliableQueue,
) -> None:
    for wrong in (3, None, True, object()):
        with pytest.raises(TypeError, match="put a single number"):
            await queue.enqueue_many(["a", NewItem("b"), wrong])
    assert await queue.length() == 0


async def test_bytes_text_and_json_come_back_as_bytes_and_are_read_on_request(queue: ReliableQueue) -> None:
    await queue.enqueue_many([b"\xff\x00", "grün", {"a": [1]}])
    binary, text, json = await queue.claim(3, wait=0)
    assert binary.item.payload == b"\xff\x00"
    assert text.item.text == "grün"
    assert json.item.json() == {"a": [1]}
    with pytest.raises(claimq.PayloadError, match=r"read \.payload"):
        _ = binary.item.text
    for item in (binary.item, text.item):
        with pytest.raises(claimq.PayloadError, match=r"read \.text or \.payload"):
            item.json()


@pytest.mark.parametrize(
    ("item", "says_"),
    [
        (NewItem("a", delay=-1), "give 0 to"),
        (NewItem("a", delay=float("nan")), "give 0 to"),
        (NewItem("a", at=-5), "Unix seconds"),
        (NewItem("a", at=float("inf")), "Unix seconds"),
        (NewItem("a", at=1.0, delay=1.0), "not both"),
    ],
)
async def test_times_that_make_no_sense_are_refused(queue: ReliableQueue, item: NewItem, says_: str) -> None:
    with pytest.raises(ValueError, match=says_):
        await queue.enqueue_many(["fine", item])
    assert await queue.length() == 0


async def test_numbers_that_make_no_sense_are_refused_and_say_what_may_be(queue: ReliableQueue) -> None:
    for count in (0, -1, 1001):
        with pytest.raises(ValueError, match="1 to 1,000"):
            await queue.claim(count)
    for wait in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="give 0 to"):
            await queue.claim(wait=wait)
    for delay in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="give 0 to"):
            await queue.requeue("w1/1.AAAAAAAA", delay=delay)
    for limit in (0, 1001):
        with pytest.raises(ValueError, match="1 to 1,000"):
            await queue.reap(limit)
    for chunk in (0, 1001):
        with pytest.raises(ValueError, match="1 to 1,000"):
            await queue.requeue_failed(chunk=chunk)
        with pytest.raises(ValueError, match="1 to 1,000"):
            await queue.remove_failed(chunk=chunk)


async def test_a_payload_over_the_limit_late_in_a_call_of_many_stores_nothing(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_payload=1_000_000))
    with pytest.raises(ItemTooLarge) as caught:
        await queue.enqueue_many([b"x" * 900_000] * 12 + [b"x" * 1_000_001])
    assert caught.value.index == 12
    assert await queue.length() == 0
