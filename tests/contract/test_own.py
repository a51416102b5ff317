"""A queue has one owner, recorded once; it changes hands only by a word that names the owner."""

import pytest

from claimq import ReliableQueue
from claimq.errors import StoreMisused
from claimq.internals.operations import internals
from claimq.internals.owner import Owner, read_owner
from claimq.model import State
from testkit.servers.server import Server

THUMBS = Owner("cluster-a", "media", "thumbs", "uid-1")
AGAIN = Owner("cluster-a", "media", "thumbs", "uid-2")
SHOP = Owner("cluster-a", "shop", "thumbs", "uid-3")
ELSEWHERE = Owner("cluster-b", "media", "thumbs", "uid-4")


def stored(server: Server) -> object:
    return server.call("HGET", "cq:{q}:config", "owner")


async def test_the_owner_can_be_read_without_owning(queue: ReliableQueue) -> None:
    assert await internals(queue).owner() is None
    await internals(queue).own(THUMBS)
    assert str(await internals(queue).owner()) == "cluster-a/media/thumbs/uid-1/1"


async def test_a_queue_without_an_owner_is_adopted_once(queue: ReliableQueue, server: Server) -> None:
    await queue.enqueue("made by the library")
    first = await internals(queue).own(THUMBS)
    assert (str(first), await internals(queue).own(THUMBS)) == ("cluster-a/media/thumbs/uid-1/1", first)
    assert stored(server) == b"cluster-a media thumbs uid-1 1"


@pytest.mark.parametrize("other", [SHOP, ELSEWHERE, Owner("cluster-a", "media", "thumb", "uid-1")])
async def test_another_object_changes_nothing_and_learns_the_owner(
    queue: ReliableQueue, server: Server, other: Owner
) -> None:
    owner = await internals(queue).own(THUMBS)
    before = server.call("HGETALL", "cq:{q}:config"), server.call("HGETALL", "cq:{q}:stats")
    assert await internals(queue).own(other) == owner
    assert (server.call("HGETALL", "cq:{q}:config"), server.call("HGETALL", "cq:{q}:stats")) == before


async def test_an_object_made_again_at_its_place_keeps_its_queue(queue: ReliableQueue) -> None:
    await internals(queue).own(THUMBS)
    assert str(await internals(queue).own(AGAIN)) == "cluster-a/media/thumbs/uid-2/2"
    assert (await internals(queue).own(SHOP)).uid == "uid-2"


async def test_a_permission_to_take_over_names_the_owner_and_holds_once(queue: ReliableQueue) -> None:
    first = await internals(queue).own(THUMBS)
    assert (await internals(queue).own(ELSEWHERE, take_over_from=SHOP)) == first
    second = await internals(queue).own(ELSEWHERE, take_over_from=read_owner(str(first)))
    assert str(second) == "cluster-b/media/thumbs/uid-4/2"
    third = await internals(queue).own(THUMBS, take_over_from=second)
    assert third.number == 3
    # The word of the first taking over is still there, in an annotation that was left behind.
    assert await internals(queue).own(ELSEWHERE, take_over_from=first) == third


async def test_a_queue_is_deleted_by_its_owner_only(queue: ReliableQueue) -> None:
    await queue.enqueue("kept")
    await internals(queue).own(THUMBS)
    with pytest.raises(StoreMisused, match="belongs to another owner"):
        await internals(queue).delete_owned(SHOP)
    assert await queue.length() == 1
    gone = await internals(queue).delete_owned(THUMBS)
    assert gone is not None
    assert gone[State.MAIN] == 1
    assert (await internals(queue).own(SHOP)).number == 1


async def test_a_record_that_cannot_be_read_is_not_shown_and_never_taken_over(
    queue: ReliableQueue, server: Server
) -> None:
    for text in ("\x1b[2J", "a b c", "a b c d", "a b c d 1 2", "a b c " + "d" * 300 + " 1"):
        server.call("HSET", "cq:{q}:config", "owner", text)
        with pytest.raises(StoreMisused, match=r"HDEL cq:\{q\}:config owner") as caught:
            await internals(queue).own(THUMBS)
        assert text not in str(caught.value)
        assert stored(server) == text.encode()


@pytest.mark.parametrize(
    "text", ["", "a/b/c/d", "a/b/c/d/x", "a/b/c/d/1/2", "a/b c/d/e/1", "a//c/d/1", "ä/b/c/d/1"]
)
def test_what_names_no_owner_is_none(text: str) -> None:
    assert read_owner(text) is None
