"""priority: which items of a client are claimed first, and that none waits forever."""

from datetime import timedelta
from typing import Any

import pytest

from claimq import (
    ClientInfo,
    Done,
    NewItem,
    OnExpiry,
    Priority,
    Reason,
    ReliableQueue,
    State,
    StoreMisused,
    Verdict,
)
from claimq.internals.operations import internals
from testkit.queues.clock import move_clock
from testkit.queues.damaged_keys import correct
from testkit.queues.looking import texts
from testkit.queues.retries import retrying_at_once
from testkit.servers.server import Server

pytestmark = pytest.mark.frozen_clock(True)
KINDS = ("low", "normal", "high")
SOON = timedelta(seconds=10)


async def fill(queue: ReliableQueue, count: int, *, client: str | None = None) -> None:
    """So many items of each priority, the most urgent ones last: low0, low1, ..., high0, high1."""
    await queue.enqueue_many(
        [NewItem(f"{kind}{n}", client=client, priority=kind) for kind in KINDS for n in range(count)]
    )


async def claimed(queue: ReliableQueue, count: int, at_once: int = 1) -> list[str]:
    """The texts of the next items, which are done."""
    found: list[str] = []
    while len(found) < count and (claims := await queue.claim(min(at_once, count - len(found)), wait=0)):
        found += texts(claims)
        await queue.done(claims)
    return found


@pytest.mark.parametrize("client", [None, "ann"])
@pytest.mark.parametrize("at_once", [1, 6])
async def test_items_of_a_higher_priority_are_claimed_first_in_their_order(
    queue: ReliableQueue, client: str | None, at_once: int
) -> None:
    await fill(queue, 2, client=client)
    assert await claimed(queue, 6, at_once) == ["high0", "high1", "normal0", "normal1", "low0", "low1"]
    assert (await queue.length(), await queue.age()) == (0, None)


@pytest.mark.parametrize("clients", [[None], ["ann"], [None, "ann"], ["ann", "bob"]])
@pytest.mark.parametrize("at_once", [1, 8, 1000])
async def test_every_eighth_item_is_one_of_a_lower_priority(
    queue: ReliableQueue, clients: list[str | None], at_once: int
) -> None:
    """Of each client, however many clients there are and however many items a call claims."""
    took: dict[str | None, list[str]] = {client: [] for client in clients}
    await fill(queue, 120, client=clients[0])
    took[clients[0]] += [text.rstrip("0123456789") for text in await claimed(queue, 3)]
    for client in clients[1:]:
        await fill(queue, 120, client=client)
    left = 125 * len(clients)
    while left > 0:
        claims = await queue.claim(min(at_once, left), wait=0)
        for claim in claims:
            took[claim.item.client].append(claim.item.text.rstrip("0123456789"))
        left -= len(claims)
        await queue.done(claims)
    eighth = [*["high"] * 7, "normal"]
    for kinds in took.values():
        assert kinds == ([*eighth * 7, *["high"] * 7, "low"] * 2)[: len(kinds)]
        assert len(kinds) >= 124


async def test_an_item_of_low_priority_is_passed_by_at_most_63_others(queue: ReliableQueue) -> None:
    """Also where higher ones keep coming, and calls are cut short by what comes alone."""
    await queue.enqueue("low", priority="low")
    found: list[str] = []
    for _ in range(4):
        await queue.enqueue_many([NewItem(kind, priority=kind) for kind in ("high", "normal")] * 8)
        crashed = await queue.claim(2, wait=0)
        await queue.crash(crashed, "killed")
        if "low" in (found := [*texts(crashed), *await claimed(queue, 14, 5)]):
            break
    assert "low" in found
    assert (await queue.stats())["claimed"] <= 64


@pytest.mark.parametrize("way", ["requeue", "fail", "crash", "release", "expire", "delay", "failed"])
@pytest.mark.parametrize("client", [None, "ann"])
async def test_an_item_keeps_its_priority_on_every_way_back_to_main(
    queue: ReliableQueue, way: str, client: str | None
) -> None:
    await queue.set_policy(retrying_at_once(on_expiry=OnExpiry.REQUEUE))
    await queue.enqueue("a", client=client, priority=Priority.HIGH, headers={"h": "1"})
    claims = await queue.claim(wait=0)
    words: dict[str, Any] = {"fail": {"error": "no"}, "crash": {"error": "no"}, "delay": {"delay": 3}}
    if way == "release":
        await queue.release_worker("w1", Reason.CRASHED)
    elif way == "failed":
        await queue.fail(claims, "no", permanent=True)
        await queue.requeue_failed()
    elif way != "expire":
        await getattr(queue, "requeue" if way == "delay" else way)(claims, **words.get(way, {}))
    await queue.enqueue_many([NewItem("b", client=client), NewItem("c", client=client, priority="high")])
    await move_clock(queue, 31)
    await queue.reap()
    back = ["c", "a", "b"] if way in ("expire", "delay") else ["a", "c", "b"]
    assert texts(await queue.peek(9)) == back
    assert await claimed(queue, 9) == back


@pytest.mark.parametrize("client", [None, "ann"])
async def test_items_that_are_given_back_stand_at_the_head_of_their_priority(
    queue: ReliableQueue, client: str | None
) -> None:
    await fill(queue, 3, client=client)
    held = await queue.claim(8, wait=0)
    for part in (held[1::2], held[::2]):
        await queue.unclaim(part)
    assert texts(await queue.peek(9)) == [f"{kind}{n}" for kind in KINDS[::-1] for n in range(3)]


async def test_clients_that_get_items_back_take_turns_in_the_order_of_their_claims(
    queue: ReliableQueue,
) -> None:
    for client, kind in (("ann", "high"), ("bob", "normal"), ("ann", "low")):
        await queue.enqueue(f"{client} {kind}", client=client, priority=kind)
    claims = await queue.claim(3, wait=0)
    assert texts(claims) == ["ann high", "bob normal", "ann low"]
    await queue.unclaim(claims)
    assert await claimed(queue, 3) == ["ann high", "bob normal", "ann low"]


async def test_delayed_items_and_followers_and_own_ids_have_priorities(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["first", NewItem("soon", delay=1, priority="high")])
    (claim,) = await queue.claim(wait=0)
    new = [NewItem("x", id="1", priority="low"), NewItem("y", id="2", priority="high"), NewItem("z", id="3")]
    await queue.done(Done(claim, new))
    again = await queue.enqueue_many([NewItem("w", id="4"), *new[:2], NewItem("v", id="5", priority="high")])
    assert again.duplicates == ("1", "2")
    assert again.length == 5
    await move_clock(queue, 2)
    await queue.reap()
    assert await claimed(queue, 9) == ["y", "v", "soon", "z", "w", "x"]


@pytest.mark.parametrize("client", [None, "ann"])
async def test_all_looks_at_main_see_every_priority(queue: ReliableQueue, client: str | None) -> None:
    await queue.enqueue("old", client=client, priority="low")
    await move_clock(queue, 1)
    await fill(queue, 2, client=client)
    await move_clock(queue, 3)
    await queue.enqueue("new", id="new", client=client, priority="high")
    order = ["high0", "high1", "new", "normal0", "normal1", "old", "low0", "low1"]
    assert (await queue.length(), await queue.age()) == (8, 4)
    assert await queue.clients() == [ClientInfo(client, 8)]
    for offset in range(9):
        assert texts(await queue.peek(2, offset=offset)) == order[offset : offset + 2]
    if client:
        assert await queue.client_length(client) == 8
        assert texts(await queue.peek(9, client=client)) == order
    found = await queue.find("new")
    assert found is not None
    assert (found.state, found.item.priority) == (State.MAIN, Priority.HIGH)
    kinds = [item.priority.value for item in await queue.peek(9)]
    assert kinds == [*["high"] * 3, *["normal"] * 2, *["low"] * 3]
    assert (await queue.memory_usage()).queue_bytes > 7 * 50


@pytest.mark.parametrize("client", [None, "ann"])
async def test_any_item_can_be_claimed_by_its_id_whatever_its_priority(
    queue: ReliableQueue, client: str | None
) -> None:
    await queue.enqueue_many(
        [
            NewItem(f"{kind}{n}", id=f"{kind}{n}", client=client, priority=kind)
            for kind in KINDS
            for n in range(3)
        ]
    )
    for name in ("low1", "normal0", "high2", "low2"):
        claim = await queue.claim_item(name)
        assert claim is not None
        assert claim.item.text == name
        await queue.done(claim)
    assert await claimed(queue, 9) == ["high0", "high1", "normal1", "normal2", "low0"]
    assert await queue.lengths() == dict.fromkeys(State, 0)


async def test_flush_and_delete_leave_nothing_of_any_priority(server: Server, queue: ReliableQueue) -> None:
    await fill(queue, 2)
    await fill(queue, 2, client="ann")
    assert await queue.flush_client("ann") == 6
    await fill(queue, 2, client="ann")
    assert await queue.delete(only_if_empty=True) is None
    assert (await queue.flush())[State.MAIN] == 12
    assert (
        server.call(
            "EXISTS", *(f"cq:{{q}}:{key}" for key in ("high", "low", "levels", "high:ann", "low:ann"))
        )
        == 0
    )
    await queue.enqueue("x", priority="low")
    assert await queue.delete(only_if_empty=True) is None
    await queue.delete()
    assert server.call("EXISTS", *(f"cq:{{q}}:{key}" for key in ("low", "levels", "stats"))) == 0


@pytest.mark.parametrize("part", ["stats", "levels", "clients", "heads", "wake"])
@pytest.mark.parametrize("client", [None, "ann"])
async def test_any_one_lost_key_loses_no_item_with_a_priority(
    server: Server, queue: ReliableQueue, part: str, client: str | None
) -> None:
    await fill(queue, 2, client=client)
    server.call("DEL", f"cq:{{q}}:{part}")
    await queue.reap()
    await correct(queue, server)
    assert await queue.length() == 6
    assert sorted(await claimed(queue, 9)) == sorted(f"{kind}{n}" for kind in KINDS for n in range(2))


@pytest.mark.parametrize("client", [None, "ann"])
async def test_the_cause_of_a_crash_is_found_and_counted_whatever_the_priority(
    queue: ReliableQueue, client: str | None
) -> None:
    await fill(queue, 1, client=client)
    await queue.crash(await queue.claim(3, wait=0), "killed")
    assert await internals(queue).explain("w1", "OOMKilled: exit code 137") == 3
    await queue.done([claim for _ in range(3) for claim in await queue.claim(1, wait=0)])
    await fill(queue, 1, client=client)
    await queue.unclaim(await queue.claim(3, wait=0), why="asked to end")
    assert await internals(queue).recount("w1", "evicted") == 3
    assert [(item.text, item.crash_count) for item in await queue.peek(9)] == [
        ("high0", 1),
        ("normal0", 1),
        ("low0", 1),
    ]


@pytest.mark.parametrize("client", [None, "ann"])
async def test_a_claim_that_leaves_items_with_a_priority_wakes_the_next_worker(
    server: Server, queue: ReliableQueue, client: str | None
) -> None:
    await queue.enqueue_many([NewItem("a", client=client), *[NewItem("b", priority="low")] * 3])
    server.call("DEL", "cq:{q}:wake")
    assert len(await queue.claim(2, wait=0)) == 2
    assert server.call("LLEN", "cq:{q}:wake") == 1


async def test_an_item_past_its_deadline_is_not_started_whatever_its_priority(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("late", deadline=SOON, priority="high"), NewItem("x", priority="low")])
    await move_clock(queue, 10)
    assert [found for _ in range(2) for found in await claimed(queue, 2, 2)] == ["x"]
    assert (await queue.failed_items())[0].item.priority is Priority.HIGH


async def test_items_that_an_earlier_release_put_into_main_keep_their_priority(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("x", priority="high")
    server.call("RENAME", "cq:{q}:high", "cq:{q}:main")
    server.call("DEL", "cq:{q}:levels")
    server.call("HDEL", "cq:{q}:stats", "levels")
    claims = await queue.claim(wait=0)
    assert [claim.item.priority for claim in claims] == [Priority.HIGH]
    assert [one.verdict for one in await queue.unclaim(claims)] == [Verdict.UNCLAIMED]
    assert server.call("LLEN", "cq:{q}:high") == 1
    assert await claimed(queue, 9) == ["x"]


@pytest.mark.parametrize("word", ["urgent", "", None, 1])
async def test_an_unknown_priority_is_refused_with_those_that_there_are(
    queue: ReliableQueue, word: Any
) -> None:
    with pytest.raises(ValueError, match=r"priority is .*; give one of: high, normal, low"):
        await queue.enqueue("a", priority=word)


async def test_a_normal_priority_is_not_stored_and_makes_no_lists(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a", priority="normal")
    assert b"{" not in _first(server)
    assert server.call("HGET", "cq:{q}:stats", "levels") is None


def _first(server: Server) -> bytes:
    reply = server.call("LINDEX", "cq:{q}:main", 0)
    assert isinstance(reply, bytes)
    return reply


@pytest.mark.parametrize("client", ["ann", None])
async def test_a_key_of_another_type_as_a_list_of_a_priority_refuses_the_claim(
    queue: ReliableQueue, server: Server, client: str | None
) -> None:
    await queue.enqueue("x", client=client, priority="high")
    await queue.enqueue("y", client=client)
    list_ = "cq:{q}:high" + (f":{client}" if client else "")
    server.call("DEL", list_)
    server.call("SET", list_, "x")
    with pytest.raises(StoreMisused, match="another type"):
        await queue.claim(2, wait=0)
    server.call("DEL", list_)
    assert texts(await queue.claim(2, wait=0)) == ["y"]
