"""`claimq items NAME busy`: the items that are claimed now, the longest claim first."""

import asyncio

import pytest

from testkit.plugin import Claimq
from testkit.servers.patient import open_server
from testkit.servers.server import Server


@pytest.fixture
def three_busy(on: Claimq, valkey: Server) -> None:
    """Three busy items of three workers: the longest claim has the longest lease."""
    for name in "abc":
        on("enqueue", "q", name, "--id", name)

    async def work() -> None:
        async with open_server(valkey.url) as server:
            claims = [
                (await server.queue("q", worker=worker).claim(1, wait=0))[0] for worker in ("w0", "w1", "w2")
            ]
            for seconds, claim in zip((900, 600, 300), claims, strict=True):
                queue = server.queue("q", worker=claim.worker)
                await queue.update_policy(busy_expiry=seconds)
                await queue.renew(claim)

    asyncio.run(work())


def test_busy_items_are_shown_with_the_longest_claim_first(on: Claimq, three_busy: None) -> None:
    found = on("items", "q", "busy", "-o", "json").json
    assert (found["queue"], found["state"]) == ("q", "busy")
    shown = [(one["item"]["id"], one["worker"]) for one in found["items"]]
    assert shown == [("a", "w0"), ("b", "w1"), ("c", "w2")]
    assert found["items"] == on("items", "q", "busy", "--offset", "0", "-o", "json").json["items"][::-1]
    assert all(one["claimed_at"] <= found["now"] < one["lease_until"] for one in found["items"])


def test_the_table_of_busy_items_has_worker_lease_and_counters(on: Claimq, three_busy: None) -> None:
    heading, _, first, *others = on("items", "q", "busy", "--limit", "2").out.splitlines()
    assert heading.split()[:6] == ["id", "worker", "busy", "for", "lease", "until"]
    assert heading.split()[6:] == ["requeued", "failed", "crashed", "interrupted", "payload"]
    assert first.split()[:2] == ["a", "w0"]
    assert first.split()[-5:] == ["0", "0", "0", "0", "a"]
    assert others[1:] == ["2 of 3; --limit shows more"]


def test_the_longest_claim_is_found_behind_hundreds_of_others(on: Claimq, valkey: Server) -> None:
    async def work() -> str:
        async with open_server(valkey.url) as server:
            queue = server.queue("q", worker="w")
            await queue.enqueue_many(["x"] * 700)
            (longest,) = await queue.claim(1, wait=0)
            await queue.claim(699, wait=0)
            await queue.update_policy(busy_expiry=900)
            await queue.renew(longest)
            return longest.item.id

    longest = asyncio.run(work())
    by_lease = on("items", "q", "busy", "--offset", "0", "--limit", "699", "-o", "json").json["items"]
    assert longest not in [one["item"]["id"] for one in by_lease]
    assert [
        one["item"]["id"] for one in on("items", "q", "busy", "--limit", "1", "-o", "json").json["items"]
    ] == [longest]


def test_a_queue_without_claims_has_no_busy_items(on: Claimq) -> None:
    on("enqueue", "q", "a")
    assert on("items", "q", "busy").out == "q: no items in busy\n"
    assert on("items", "q", "busy", "-o", "json").json["items"] == []
