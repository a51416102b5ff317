"""consume(): which verdicts share a call, how many claims are fetched ahead, and what faults do to both."""

import asyncio
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from claimq import Claim, Item, Outcome, Policy, ReliableQueue, State, StoreMisused
from claimq.concurrency import calls_in_flight
from claimq.consuming.engine.shared_done import SharedDone
from claimq.redis_store.scripts import script
from testkit.faults.links import Request
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.programs.processes import Process, whole_lines
from testkit.servers.patient import open_queue, open_server
from testkit.servers.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually, eventually_sync
from testkit.workers.handlers import Seen, fill


def calls_of(name: str) -> Callable[[Request], bool]:
    """Which commands are calls of this script, by its hash."""
    sha = script(name).sha.encode()
    return lambda request: request.name == "EVALSHA" and request.words[1] == sha


async def warm(queue: ReliableQueue) -> None:
    """Lets the server know the scripts of verdicts."""
    await queue.enqueue_many(["a", "b"])
    await queue.done(await queue.claim())
    await queue.drop(await queue.claim(), "warm")


async def busy(queue: ReliableQueue) -> list[str]:
    return sorted((located.item.text for located in await queue.items(State.BUSY)), key=int)


async def test_verdicts_that_become_ready_during_a_call_share_the_next_one(
    seen: Seen, valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_server(proxy.url) as server:
        queue = server.queue("q", worker="w1")
        await fill(queue, 20)
        await server.ping(verdicts=True)  # connected
        seen.may_go_on.clear()
        consuming = asyncio.ensure_future(queue.consume(seen, concurrency=20, max_items=20))
        await eventually(lambda: seen.running == 20)
        proxy.black_hole("replies")
        before = proxy.count("EVALSHA")
        seen.may_go_on.set()
        await eventually(lambda: seen.running == 0 and proxy.count("EVALSHA") > before)
        proxy.heal()
        assert (await consuming).done == 20
        assert proxy.count("EVALSHA") <= before + 3


@pytest.mark.parametrize(("first", "name"), [("first", "done"), ("bad", "give_back")])
async def test_a_verdict_without_a_reply_holds_up_no_other(
    queue: ReliableQueue, seen: Seen, valkey: Server, start_proxy: ProxyFactory, first: str, name: str
) -> None:
    await warm(queue)
    before = (await queue.stats())["done"]
    proxy = start_proxy(valkey)
    async with open_queue(proxy.url) as opened:
        await queue.enqueue_many([first, *map(str, range(200))])
        lost = proxy.drop_reply(matching=calls_of(name), cut=False)
        consuming = asyncio.ensure_future(
            opened.consume(seen, concurrency=4, chunk=20, max_items=201, on_failure="drop")
        )

        async def all_are_stored() -> bool:
            stored = await queue.stats()
            return stored["done"] - before + stored["dropped"] - 1 == 201

        await eventually(all_are_stored, why="each item has its verdict while one call has no reply")
        assert lost.hit is not None
        assert not consuming.done()
        proxy.cut()
        consumed = await consuming
    assert (consumed.done + consumed.failed, consumed.lost) == (201, 0)


async def test_without_replies_four_calls_are_made_for_items_that_are_done(
    queue: ReliableQueue,
    seen: Seen,
    valkey: Server,
    start_proxy: ProxyFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls_in_flight, "LATE_SECONDS", 0.0)
    await warm(queue)
    await fill(queue, 9)
    proxy = start_proxy(valkey)

    def sent() -> int:
        return len({request.words for request in proxy.requests if is_done(request)})

    is_done = calls_of("done")
    gates = [asyncio.Event() for _ in range(9)]

    async def handler(item: Item) -> None:
        await seen(item)
        await gates[int(item.text)].wait()

    async with open_server(proxy.url) as server:
        await server.ping(verdicts=True)
        consuming = asyncio.ensure_future(server.queue("q").consume(handler, concurrency=9, max_items=9))
        await eventually(lambda: len(seen.payloads) == 9)
        for _ in range(4):
            proxy.drop_reply(matching=is_done, cut=False)
        for gate in gates[:4]:
            gate.set()
            await eventually(lambda: sent() == sum(one.is_set() for one in gates), why="each is late at once")
        for gate in gates[4:]:
            gate.set()
        await asyncio.sleep(0)
        proxy.cut()
        assert (await consuming).done == 9
    assert sent() == 5, "the others share a call when one has its reply"


async def test_an_item_that_has_crashed_a_worker_waits_for_late_calls(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls_in_flight, "LATE_SECONDS", 0.0)
    await queue.enqueue("suspect")
    await queue.crash(await queue.claim(), "died")
    for text in ("1", "2"):
        await queue.enqueue(text, priority="high")
    events: list[str] = []
    done, may_be_stored = queue.done, asyncio.Event()

    async def late_done(claims: Sequence[Claim]) -> list[Outcome]:
        texts = [claim.item.text for claim in claims]
        if texts == ["1"]:
            await may_be_stored.wait()
        outcomes = await done(claims)
        events.append(f"stored {texts}")
        return outcomes

    async def handler(item: Item) -> None:
        if item.text == "2":
            await eventually(lambda: _are_busy(queue, {"1", "2", "suspect"}))
        elif item.text == "suspect":
            events.append("suspect")

    monkeypatch.setattr(queue, "done", late_done)
    consuming = asyncio.ensure_future(queue.consume(handler, concurrency=2, max_items=3))
    await eventually(lambda: _are_busy(queue, {"1", "suspect"}))
    may_be_stored.set()
    assert (await consuming).done == 3
    assert events == ["stored ['2']", "stored ['1']", "suspect", "stored ['suspect']"]


async def _are_busy(queue: ReliableQueue, texts: set[str]) -> bool:
    return {located.item.text for located in await queue.items(State.BUSY)} == texts


@pytest.mark.parametrize("text", ["1", "bad 1"])
async def test_no_verdict_waits_for_the_handler_of_another_item(queue: ReliableQueue, text: str) -> None:
    """Not even for that of the next item, with one handler at a time."""
    await queue.set_policy(Policy(requeue_limit=0))
    await queue.enqueue_many([text, "2"])

    async def handler(item: Item) -> None:
        if item.text == "2":
            await eventually(lambda: _is_alone(queue, "2"))
        elif item.text == "bad 1":
            raise ValueError("bad")

    consumed = await queue.consume(handler, chunk=2, max_items=2)
    assert consumed.done + consumed.failed == 2


async def test_a_coroutine_that_blocks_the_loop_delays_only_its_own_verdict(
    queue: ReliableQueue, valkey: Server
) -> None:
    await queue.enqueue("before")
    await queue.done(await queue.claim())  # now it is connected, and the server knows the scripts
    await fill(queue, 4)

    def done() -> int:
        stored = valkey.call("HGET", "cq:{q}:stats", "done")
        return int(stored) - 1 if isinstance(stored, bytes) else 0

    async def handler(item: Item) -> None:
        eventually_sync(lambda: done() == int(item.text), why="the verdicts before are sent")
        time.sleep(0.002)  # noqa: ASYNC251 - slow work that blocks the loop

    assert (await queue.consume(handler, chunk=4, max_items=4)).done == 4


async def _is_alone(queue: ReliableQueue, text: str) -> bool:
    return await _are_busy(queue, {text})


async def test_one_and_a_half_chunks_are_claimed_ahead_renewed_and_returned_in_order(
    queue: ReliableQueue,
) -> None:
    await queue.set_policy(Policy(busy_expiry=6.0))
    await fill(queue, 15)
    stop, may_go_on = asyncio.Event(), asyncio.Event()

    async def handler(item: Item) -> None:
        if item.text == "1":
            await may_go_on.wait()

    consuming = asyncio.ensure_future(queue.consume(handler, chunk=4, stop=stop))
    held = [str(number) for number in range(1, 8)]
    await eventually(lambda: _holds(queue, held), why="0 is done, 1 runs, 2 and 3 wait, 4 to 7 are ahead")
    first = max(await _lease_ends(queue))
    await eventually(lambda: _all_later(queue, first + 12.0), why="all outlive two of their leases")
    assert await busy(queue) == held
    stop.set()
    await eventually(lambda: _holds(queue, ["1"]))
    may_go_on.set()
    assert (await consuming).done == 2
    assert [item.text for item in await queue.peek(99)] == [str(number) for number in range(2, 15)]


async def _holds(queue: ReliableQueue, texts: list[str]) -> bool:
    return await busy(queue) == texts


async def _lease_ends(queue: ReliableQueue) -> list[float]:
    return [located.lease_until or 0.0 for located in await queue.items(State.BUSY)]


async def _all_later(queue: ReliableQueue, than: float) -> bool:
    return min(await _lease_ends(queue)) > than


@pytest.mark.parametrize("chunk", [1, None])
async def test_at_first_nothing_is_claimed_that_no_handler_has(
    queue: ReliableQueue, seen: Seen, chunk: int | None
) -> None:
    await fill(queue, 9)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=3, chunk=chunk, max_items=9))
    await eventually(lambda: seen.running == 3)
    for _ in range(5):
        assert len(await busy(queue)) == 3
    seen.may_go_on.set()
    assert (await consuming).done == 9


async def test_nothing_is_claimed_ahead_beside_an_item_that_has_crashed_a_worker(
    queue: ReliableQueue,
) -> None:
    await queue.enqueue("0")
    await queue.crash(await queue.claim(), "died")
    await queue.enqueue_many(list("12345"))
    seen: list[list[str]] = []

    async def handler(item: Item) -> None:
        if item.crash_count:
            seen.extend([await busy(queue) for _ in range(10)])

    await queue.enqueue_many(list("6789"))
    assert (await queue.consume(handler, chunk=4, max_items=10)).done == 10
    assert seen == [["0"]] * 10


async def test_a_cancellation_completes_the_verdicts_of_finished_handlers(
    seen: Seen, valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with open_server(proxy.url) as server:
        queue = server.queue("q", worker="w1")
        await fill(queue, 6)
        await server.ping(verdicts=True)
        seen.may_go_on.clear()
        consuming = asyncio.ensure_future(queue.consume(seen, concurrency=4))
        await eventually(lambda: seen.running == 4)
        proxy.black_hole("replies")
        seen.may_go_on.set()
        await eventually(lambda: seen.running == 0)
        consuming.cancel()
        ended, _ = await asyncio.wait({consuming}, timeout=0.2)
        assert not ended, "the verdicts have no answer yet"
        proxy.heal()
        with pytest.raises(asyncio.CancelledError):
            await consuming
        assert set(await busy(queue)) <= {"4", "5"}
        await eventually(lambda: _holds(queue, []), why="what was claimed last goes back in the background")
        assert [item.text for item in await queue.peek(9)] == ["4", "5"]


async def test_a_verdict_that_the_server_refuses_ends_it_with_that_error(
    queue: ReliableQueue, seen: Seen, valkey: Server
) -> None:
    await fill(queue, 3)
    seen.may_go_on.clear()
    consuming = asyncio.ensure_future(queue.consume(seen, concurrency=3, max_items=3))
    await eventually(lambda: seen.running == 3)
    valkey.call("RENAME", "cq:{q}:stats", "aside")
    valkey.call("SET", "cq:{q}:stats", "in the way")
    seen.may_go_on.set()
    with pytest.raises(StoreMisused, match=r"^done: .* cq:\{q\}:stats is a string"):
        await consuming
    valkey.call("RENAME", "aside", "cq:{q}:stats")
    assert await busy(queue) == ["0", "1", "2"]


async def test_cuts_lost_replies_and_a_killed_server_lose_no_item(
    start_server: ServerFactory, start_proxy: ProxyFactory
) -> None:
    valkey = start_server("valkey", DURABLE)
    proxy = start_proxy(valkey)
    handled: list[str] = []
    async with open_queue(proxy.url, worker="w1", retry_for=0.2) as queue:
        await queue.set_policy(Policy(requeue_limit=100))
        payloads = await fill(queue, 300)

        def restart() -> None:
            valkey.kill9()
            valkey.start()

        faults: dict[int, Callable[[], object]] = {
            40: proxy.cut,
            80: proxy.drop_reply,
            120: lambda: proxy.cut_request(after=30),
            160: restart,
            200: lambda: (proxy.drop_reply(), proxy.drop_reply(2)),
            240: restart,
        }

        async def handler(item: Item) -> None:
            handled.append(item.text)
            if fault := faults.pop(len(handled), None):
                fault()

        consumed = await queue.consume(handler, concurrency=3, chunk=20, return_when_empty=True)
        assert not faults
        assert set(handled) == set(payloads)
        assert consumed.done + consumed.lost == len(handled)
        assert sum((await queue.lengths()).values()) == 0


PROGRAM = """
    import asyncio, claimq, sys
    async def handler(item):
        print("end", item.text, flush=True)
    async def main():
        async with claimq.connect(sys.argv[1]) as server:
            await server.queue("q", worker="victim").consume(handler, concurrency=2, chunk=10)
    asyncio.run(main())
"""


@pytest.mark.parametrize("at", [1, 37, 150])
async def test_a_killed_process_leaves_no_item_behind(
    queue: ReliableQueue, seen: Seen, valkey: Server, tmp_path: Path, at: int
) -> None:
    payloads = await fill(queue, 400)
    log = tmp_path / "log"
    with Process([sys.executable, "-c", textwrap.dedent(PROGRAM), valkey.url], log=log) as program:
        await eventually(lambda: len(list(_ended(log))) >= at)
        program.kill9()
    await queue.release_worker("victim")
    consumed = await queue.consume(seen, chunk=50, return_when_empty=True)
    assert ((await queue.stats())["done"], consumed.lost) == (400, 0)
    assert {*_ended(log), *seen.payloads} == set(payloads)


def _ended(log: Path) -> Iterator[str]:
    for line in whole_lines(log):
        if line.startswith("end "):
            yield line.removeprefix("end ")


async def test_the_end_of_an_event_loop_ends_consume_before_a_call_has_begun(
    queue: ReliableQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cancels all tasks, also those that have not made their first step."""
    await fill(queue, 3)
    schedule_call, test = SharedDone[Claim]._schedule_call, asyncio.current_task()

    def schedule_and_end(self: SharedDone[Claim]) -> bool:
        if is_scheduled := schedule_call(self):
            for task in asyncio.all_tasks() - {test}:
                task.cancel()
        return is_scheduled

    async def handler(_: Item) -> None: ...

    monkeypatch.setattr(SharedDone, "_schedule_call", schedule_and_end)
    consuming = asyncio.ensure_future(queue.consume(handler))
    done, _ = await asyncio.wait({consuming}, timeout=PATIENCE)
    assert done == {consuming}
