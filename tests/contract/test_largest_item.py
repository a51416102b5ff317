"""A program states the largest item that it can take. A larger one is not sent to it, but moves to failed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from claimq import NewItem, RedisSettings, ReliableQueue
from claimq.internals.next_claims import next_claims
from claimq.redis_store.connection import Connection
from testkit.queues.looking import Lengths, lengths, verdicts
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually

SMALL, LARGE = "s" * 500, "l" * 2000


@pytest.fixture
async def limited(server: Server) -> AsyncIterator[ReliableQueue]:
    """The queue of a program that takes items of at most 1,000 bytes."""
    async with open_queue(server.url, worker="w1", largest_item=1000) as queue:
        yield queue


async def in_failed(queue: ReliableQueue, *ids: str) -> None:
    async def are_there() -> bool:
        return sorted([one.name for one in await queue.failed_items()]) == sorted(ids)

    await eventually(are_there)


async def test_a_larger_item_fails_with_the_reason_and_keeps_its_payload(limited: ReliableQueue) -> None:
    await limited.enqueue_many([NewItem(LARGE, id="large", client="ann"), NewItem(SMALL, id="small")])
    (claim,) = await limited.claim(1)
    assert claim.item.id == "small"
    await in_failed(limited, "large")
    found = await limited.failed_item("large")
    assert found
    assert (found.item.text, found.item.client) == (LARGE, "ann")
    assert found.item.last_error is not None
    assert found.item.last_error.startswith("the item has 2,0")
    assert "takes at most 1,000" in found.item.last_error


async def test_the_others_of_a_call_are_claimed_under_their_tokens(limited: ReliableQueue) -> None:
    names = ["a", "large1", "b", "large2", "c"]
    await limited.enqueue_many([NewItem(LARGE if len(name) > 1 else SMALL, id=name) for name in names])
    claims = await limited.claim(9)
    assert [claim.item.id for claim in claims] == ["a", "b", "c"]
    assert verdicts(await limited.done(claims)) == ["done"] * 3
    await in_failed(limited, "large1", "large2")
    assert await lengths(limited) == Lengths(failed=2)


async def test_a_bare_payload_has_the_same_limit(server: Server, limited: ReliableQueue) -> None:
    server.call("LPUSH", "cq:{q}:main", LARGE, SMALL)
    (claim,) = await limited.claim(9)
    assert claim.item.text == SMALL
    await eventually(lambda: server.call("ZCARD", "cq:{q}:failed") == 1)


async def test_the_claim_after_a_verdict_has_the_same_limit(limited: ReliableQueue) -> None:
    await limited.enqueue_many([NewItem(SMALL, id="a"), NewItem(LARGE, id="large"), NewItem(SMALL, id="b")])
    (first,) = await limited.claim(1)
    outcomes, claims = await next_claims(limited).done_and_claim(first, 2)
    assert verdicts(outcomes) == ["done"]
    assert [claim.item.id for claim in claims] == ["b"]
    await in_failed(limited, "large")


async def test_a_reply_that_is_sent_again_leaves_the_item_out_too(
    limited: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, sizes = Connection.run, list[list[object]]()

    async def run_twice(self: Connection, name: str, *words: Any, **options: Any) -> Any:
        reply = await real(self, name, *words, **options)
        if name != "claim" or reply[0] != b"OK":
            return reply
        again = await real(self, name, *words, **options)
        sizes.append([reply[2:], again[2:]])
        return again

    await limited.enqueue_many([NewItem(LARGE, id="large"), NewItem(SMALL, id="b")])
    monkeypatch.setattr(Connection, "run", run_twice)
    assert [claim.item.id for claim in await limited.claim(2)] == ["b"]
    ((first, again),) = sizes
    assert first == again
    await in_failed(limited, "large")


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_limit_is_at_least_a_byte(wrong: int) -> None:
    with pytest.raises(ValueError, match=r"^largest_item"):
        RedisSettings(largest_item=wrong)
