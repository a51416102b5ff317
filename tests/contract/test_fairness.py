"""Claims go round the clients: a new client's first item waits at most one turn of the others."""

import asyncio
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claimq import Claim, NewItem, ReliableQueue
from testkit.queues.looking import texts, waiting
from testkit.servers.patient import open_queue
from testkit.servers.server import Server


@pytest.fixture(autouse=True)
async def by_count(queue: ReliableQueue) -> None:
    await queue.update_policy(fairness_by="count")


async def test_clients_take_turns_however_long_their_lists_are(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(f"big{n}", client="big") for n in range(500)])
    await queue.enqueue_many([NewItem(f"small{n}", client="small") for n in range(3)])
    assert texts(await queue.claim(8, wait=0)) == [
        "big0", "small0", "big1", "small1", "big2", "small2", "big3", "big4",
    ]  # fmt: skip


async def test_turns_go_on_from_claim_to_claim(queue: ReliableQueue) -> None:
    await queue.enqueue_many(
        [NewItem(f"{client}{n}", client=client) for n in range(3) for client in ("a", "b", "c")]
    )
    got = [texts(await queue.claim(count, wait=0)) for count in (2, 2, 1, 4)]
    assert got == [["a0", "b0"], ["c0", "a1"], ["b1"], ["c1", "a2", "b2", "c2"]]


async def test_items_without_a_client_take_turns_like_one_client(queue: ReliableQueue) -> None:
    await queue.enqueue_many(["x0", "x1", "x2"])
    await queue.enqueue_many([NewItem(f"ann{n}", client="ann") for n in range(3)])
    got = texts(await queue.claim(9, wait=0))
    assert [text for text in got if text.startswith("x")] == ["x0", "x1", "x2"]
    assert [text for text in got if text.startswith("ann")] == ["ann0", "ann1", "ann2"]
    assert {got[0][0], got[1][0]} == {"x", "a"}


async def test_a_new_client_waits_for_one_item_of_each_other(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("x", client=f"c{number}") for number in range(50) for _ in range(20)])
    await queue.claim(7, wait=0)
    await queue.enqueue("new", client="new")
    got = texts(await queue.claim(51, wait=0))
    assert got.index("new") <= 50


async def test_a_client_that_had_its_turn_and_comes_again_is_new(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(f"{client}0", client=client) for client in ("a", "b", "c")])
    await queue.claim(1, wait=0)
    await queue.enqueue("a1", client="a")
    assert texts(await queue.claim(9, wait=0)) == ["b0", "c0", "a1"]


async def test_a_batch_of_one_client_alone_is_as_large_as_asked_for(queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem(str(n), client="ann") for n in range(30)])
    assert texts(await queue.claim(20, wait=0)) == [str(n) for n in range(20)]
    await queue.enqueue("bob", client="bob")
    assert texts(await queue.claim(2, wait=0)) == ["20", "bob"]


@pytest.mark.parametrize("client", ["-1", "acme/{x}:y", "*", "main", "0", "c" * 128])
async def test_clients_of_every_name_are_served(queue: ReliableQueue, client: str) -> None:
    await queue.enqueue_many(
        [NewItem("theirs", client=client), NewItem("others", client="ann"), "of no client"]
    )
    claims = await queue.claim(9, wait=0)
    assert {claim.item.text: claim.item.client for claim in claims} == {
        "theirs": client, "others": "ann", "of no client": None,
    }  # fmt: skip
    await queue.unclaim(claims)
    assert len(await waiting(queue)) == 3


CLIENTS = ("ann", "bob", "cid", "dan", None)
steps_forward = st.one_of(
    st.tuples(st.just("enqueue"), st.sampled_from(CLIENTS), st.integers(1, 4)),
    st.tuples(st.just("push"), st.none(), st.integers(1, 3)),
    st.tuples(st.just("claim"), st.none(), st.integers(1, 7)),
)
steps_back = st.tuples(st.just("unclaim"), st.none(), st.integers(1, 3))


class Turns:
    """The promise, checked claim by claim: how often each client was served while another had items waiting."""

    def __init__(self, server: Server, queue: ReliableQueue, most: int) -> None:
        self.server, self.queue, self.most = server, queue, most
        self.lists: dict[str | None, list[str]] = defaultdict(list)
        self.passed: dict[str | None, Counter[str | None]] = defaultdict(Counter)
        self.held: list[Claim] = []
        self.number = 0

    async def enqueue(self, client: str | None, count: int) -> None:
        payloads = self._new(client, count)
        await self.queue.enqueue_many([NewItem(payload, client=client) for payload in payloads])

    async def push(self, client: str | None, count: int) -> None:
        self.server.call("LPUSH", "cq:{q}:main", *self._new(client, count))

    async def claim(self, client: str | None, count: int) -> None:
        claims = await self.queue.claim(count, wait=0)
        for claim in claims:
            self._served(claim.item.client, claim.item.text)
        self.held += claims

    async def unclaim(self, client: str | None, count: int) -> None:
        back, self.held = self.held[-count:], self.held[:-count]
        await self.queue.unclaim(back)
        for one in {claim.item.client for claim in back}:
            self.lists[one][:0] = [claim.item.text for claim in back if claim.item.client == one]
            for passed in self.passed.values():
                passed.pop(one, None)

    def _new(self, client: str | None, count: int) -> list[str]:
        payloads = [str(self.number + n) for n in range(count)]
        self.number += count
        self.lists[client] += payloads
        return payloads

    def _served(self, client: str | None, payload: str) -> None:
        assert self.lists[client][:1] == [payload], "each client's items come in their order"
        self.lists[client].pop(0)
        for other, items in self.lists.items():
            if items and other != client:
                self.passed[other][client] += 1
                assert self.passed[other][client] <= self.most, (
                    f"{other} waits while {client} is served again"
                )
        self.passed.pop(client, None)


async def _take(
    server: Server, steps: list[tuple[str, str | None, int]], most: int, by: str = "count"
) -> None:
    server.call("FLUSHALL")
    async with open_queue(server.url, worker="w1") as queue:
        turns = Turns(server, queue, most)
        await turns.queue.update_policy(fairness_by=by)
        for kind, client, count in steps:
            await getattr(turns, kind)(client, count)
        while any(turns.lists.values()):
            await turns.claim(None, 5)


@pytest.mark.servers("valkey")
@settings(max_examples=50)
@given(steps=st.lists(steps_forward, min_size=5, max_size=40))
def test_no_client_is_served_twice_while_another_waits(
    server: Server, steps: list[tuple[str, str | None, int]]
) -> None:
    asyncio.run(_take(server, steps, most=1))


@pytest.mark.servers("valkey")
@settings(max_examples=50)
@given(steps=st.lists(steps_forward | steps_back, min_size=5, max_size=40))
def test_claims_given_back_to_the_head_cost_the_others_one_more_turn_at_most(
    server: Server, steps: list[tuple[str, str | None, int]]
) -> None:
    asyncio.run(_take(server, steps, most=2))
