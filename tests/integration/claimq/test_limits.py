"""Limits with programs that wait: claims sleep until the next start, and are woken by an end or a change."""

import asyncio

import pytest

import claimq
from claimq import Item, Limit, ReliableQueue
from claimq.consuming import claims_ahead
from claimq.consuming.engine import chunk_size
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually
from testkit.workers.handlers import Seen, fill


async def test_workers_start_all_items_in_the_time_that_the_rate_takes(
    valkey: Server, store: claimq.Server
) -> None:
    """Of ten workers that wait, one at a time asks for the next start: all of them would make ten calls for each."""
    seen = Seen()

    queues = [store.queue("q", worker=f"w{number}") for number in range(10)]
    await queues[0].update_policy(limits=[Limit("api", rate="20/s")])
    await fill(queues[0], 40)
    before = valkey.call("INFO", "commandstats")
    stop = asyncio.Event()
    runs = [asyncio.ensure_future(queue.consume(seen, stop=stop)) for queue in queues]
    began = (await queues[0].snapshot()).now
    await eventually(lambda: len(seen.payloads) == 40)
    took = (await queues[0].snapshot()).now - began
    stop.set()
    assert sum(consumed.done for consumed in await asyncio.gather(*runs)) == 40
    assert took > 39 / 20 - 0.5
    assert _calls(valkey.call("INFO", "commandstats")) - _calls(before) < 8 * 40


def _calls(stats: object) -> int:
    assert isinstance(stats, bytes)
    line = next((one for one in stats.split() if one.startswith(b"cmdstat_evalsha:")), b"calls=0,")
    return int(line.partition(b"calls=")[2].partition(b",")[0])


async def test_the_end_of_an_item_wakes_a_claim_that_waits_at_the_bound(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[Limit("licences", busy=1)])
    await fill(queue, 2)
    (first,) = await queue.claim(wait=0)
    waiting = asyncio.ensure_future(queue.claim(wait=PATIENCE))
    await eventually(lambda: _is_waiting(queue))
    await queue.done(first)
    (second,) = await waiting
    assert second.item.text == "1"


async def _is_waiting(queue: ReliableQueue) -> bool:
    return not await queue._connection.command("LLEN", queue._keys.wake)


async def test_a_limit_that_is_raised_lets_a_waiting_claim_go_on(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[Limit("api", rate="1/d")])
    await fill(queue, 2)
    assert len(await queue.claim(wait=0)) == 1
    waiting = asyncio.ensure_future(queue.claim(wait=PATIENCE))
    await eventually(lambda: _is_waiting(queue))
    await queue.update_policy(limits=[Limit("api", rate="1/d", burst=2)])
    assert len(await waiting) == 1


@pytest.mark.parametrize(
    "limits", [[Limit("api", rate="1000000/s", burst=1_000_000)], []], ids=["rate", "none"]
)
async def test_under_a_rate_quick_handlers_claim_nothing_ahead(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch, limits: list[Limit]
) -> None:
    monkeypatch.setattr(chunk_size, "AHEAD_SECONDS", 3600.0)
    monkeypatch.setattr(claims_ahead, "LONGEST_WAIT", 3600.0)
    await queue.update_policy(limits=limits)
    await fill(queue, 30)
    begun = ahead = 0

    async def handler(item: Item) -> None:
        nonlocal begun, ahead
        del item
        begun += 1
        ahead = max(ahead, (await queue.snapshot()).counters["claimed"] - begun)

    assert (await queue.consume(handler, concurrency=1, return_when_empty=True)).done == 30
    assert (ahead == 0) == bool(limits)


async def test_return_when_empty_waits_for_what_a_rate_holds_back(queue: ReliableQueue) -> None:
    await queue.update_policy(limits=[Limit("api", rate="20/s")])
    await fill(queue, 6)
    consumed = await queue.consume(Seen(), return_when_empty=True)
    assert (consumed.done, consumed.stopped_by) == (6, "empty")


async def test_return_when_empty_waits_for_what_a_bound_holds_back(
    valkey: Server, store: claimq.Server
) -> None:
    queue, other = (store.queue("q", worker=name) for name in ("w1", "w2"))
    await queue.update_policy(limits=[Limit("licences", busy=1)])
    await fill(queue, 3)
    held = await other.claim(wait=0)
    run = asyncio.ensure_future(queue.consume(Seen(), return_when_empty=True))
    await eventually(
        lambda: valkey.call("ZCARD", "cq:{q}:workers") == 2
    )  # its first claim found the bound full
    await other.done(held)
    assert (await run).done == 2


async def test_a_rate_is_reached_on_a_server_whose_timers_are_coarse(start_server: ServerFactory) -> None:
    """The server ends a blocking command up to 1/hz seconds late: here a second, 0.1 by default."""
    server = start_server("valkey", {"hz": "1", "dynamic-hz": "no"})
    async with open_queue(server.url) as queue:
        await queue.update_policy(limits=[Limit("api", rate="100/s")])
        await fill(queue, 11)
        began = (await queue.snapshot()).now
        for _ in range(11):
            await queue.done(await queue.claim(wait=PATIENCE))
        assert (await queue.snapshot()).now - began < 5


async def test_a_claim_asks_before_the_instant_of_the_next_start_until_it_comes(
    valkey: Server, queue: ReliableQueue
) -> None:
    """What it is late is lost to a rate without a burst: 15 % of 100/s. A late sleep can hide an early call."""
    await queue.update_policy(limits=[Limit("api", rate="5/s")])
    await fill(queue, 1000)

    async def asked_again() -> bool:
        await queue.claim(wait=PATIENCE)  # an item may start at once after a pause; the next one may not
        before = _calls(valkey.call("INFO", "commandstats"))
        assert len(await queue.claim(wait=PATIENCE)) == 1
        return _calls(valkey.call("INFO", "commandstats")) - before > 2

    await eventually(asked_again)


async def test_a_removal_of_a_limit_whose_reply_was_lost_is_repeated_without_an_error(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as queue:
        await queue.update_policy(limits=[Limit("api", rate="20/s"), Limit("licences", busy=1)])
        fault = proxy.drop_reply(matching=lambda request: b"limits_before" in request.words)
        await queue.remove_limit("api")
        assert fault.hit is not None
        assert (await queue.policy()).limits == (Limit("licences", busy=1),)
