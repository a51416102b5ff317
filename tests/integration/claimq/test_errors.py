"""What can go wrong between the library and a server: a clear error that says what to do, and nothing lost."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import redis.asyncio

import claimq
from claimq import (
    ClaimqError,
    Policy,
    RedisSettings,
    ReliableQueue,
    ScriptsRefused,
    State,
    StoreFull,
    StoreMisused,
    StoreUnavailable,
    Verdict,
)
from testkit.plugin import ProxyFactory, ServerFactory
from testkit.queues.looking import connected_clients, texts
from testkit.servers.patient import open_queue
from testkit.servers.resp import Answer
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

FAST = 0.3


@asynccontextmanager
async def connected(url: str, **settings: Any) -> AsyncGenerator[ReliableQueue]:
    async with open_queue(url, worker="w1", retry_for=settings.pop("retry_for", FAST), **settings) as queue:
        yield queue


def says(error: str) -> Answer:
    """Answers calls of scripts with an error, and everything else with OK."""
    return lambda words: f"-{error}\r\n".encode() if words[0].startswith(b"EVAL") else b"+OK\r\n"


REFUSALS = {
    "LOADING Redis is loading the dataset in memory": (StoreUnavailable, "loading its data set"),
    "READONLY You can't write against a read only replica.": (StoreUnavailable, "is a replica now"),
    "MASTERDOWN Link with MASTER is down": (StoreUnavailable, "lost its primary"),
    "CLUSTERDOWN The cluster is down": (StoreUnavailable, "cannot serve the queue's slot"),
    "TRYAGAIN Multiple keys request during rehashing of slot": (StoreUnavailable, "being moved"),
    "BUSY Redis is busy running a script.": (StoreUnavailable, "another client's script"),
    "MISCONF Redis is configured to save RDB snapshots": (StoreUnavailable, "free its disk"),
    "NOREPLICAS Not enough good replicas to write.": (StoreUnavailable, "min-replicas-to-write"),
    "OOM command not allowed when used memory > 'maxmemory'.": (StoreFull, "give it more memory"),
    "NOPERM this user has no permissions": (StoreMisused, "grant its ACL"),
    "NOAUTH Authentication required.": (StoreMisused, "give one in the URL"),
    "ERR unknown command 'EVALSHA', with args": (ScriptsRefused, "remove their rename-command"),
    "ERR unknown command 'PUBSUB', with args": (StoreMisused, "use Redis 7.0 or Valkey 7.2 or later"),
    "ERR Error compiling script (new function): user": (ScriptsRefused, "use Redis 7.0 or Valkey 7.2"),
    "ERR Unexpected engine in script shebang: lua": (ScriptsRefused, "use Redis 7.0 or Valkey 7.2 or later"),
    "CROSSSLOT Keys in request don't hash to the same slot": (StoreMisused, "one call per queue"),
    "ERR something new": (StoreMisused, "unknown error"),
}


@pytest.mark.parametrize("refusal", REFUSALS)
async def test_each_refusal_of_a_server_is_our_error_and_says_what_to_do(
    fake: Callable[[Answer], str], refusal: str
) -> None:
    kind, advice = REFUSALS[refusal]
    async with connected(fake(says(refusal))) as queue:
        await asyncio.sleep(0)
        with pytest.raises(kind, match=advice) as caught:
            await queue.enqueue("a")
        assert type(caught.value) is not StoreMisused or kind is StoreMisused
        assert isinstance(caught.value, ClaimqError)
        assert caught.value.__cause__ is not None


async def test_a_script_error_of_an_old_server_after_its_cache_was_asked(
    fake: Callable[[Answer], str],
) -> None:
    """An old server knows no such hash, and cannot compile the script that it is sent then."""

    def answer(words: list[bytes]) -> bytes:
        if words[0] == b"EVALSHA":
            return b"-NOSCRIPT No matching script. Please use EVAL.\r\n"
        return b"-ERR Error compiling script (new function): user_script:1: unexpected symbol near '#'\r\n"

    async with connected(fake(answer)) as queue:
        with pytest.raises(StoreMisused, match="too old"):
            await queue.claim(wait=0)


async def test_a_server_that_loads_is_waited_for(fake: Callable[[Answer], str]) -> None:
    answers = 0

    def answer(words: list[bytes]) -> bytes:
        nonlocal answers
        if not words[0].startswith(b"EVAL"):
            return b"+OK\r\n"
        answers += 1
        return b"-LOADING\r\n" if answers < 4 else b"*2\r\n$2\r\nOK\r\n$9\r\n1 2 17 | \r\n"

    async with connected(fake(answer), retry_for=60) as queue:
        assert (await queue.enqueue("a")).length == 17


async def test_a_server_that_is_not_there_or_says_nothing_is_unavailable_in_bounded_time() -> None:
    loop = asyncio.get_running_loop()
    async with connected("unix:///nonexistent/socket?db=0") as queue:
        started = loop.time()
        with pytest.raises(StoreUnavailable, match="no answer from the server"):
            await queue.enqueue("a")
        assert loop.time() - started < FAST + 60


async def test_a_silent_server_is_given_up_after_the_reply_time(valkey: Server) -> None:
    loop = asyncio.get_running_loop()
    async with connected(valkey.url, reply_timeout=5.0, connect_timeout=5.0) as queue:
        await queue.enqueue("a")
        valkey.sigstop()
        started = loop.time()
        with pytest.raises(StoreUnavailable):
            await queue.claim(wait=0)
        assert loop.time() - started < FAST + 60
        valkey.sigcont()
        await eventually(lambda: _main_length(queue))


async def _main_length(queue: ReliableQueue) -> bool:
    try:
        return sum((await queue.lengths()).values()) == 1
    except StoreUnavailable:
        return False


async def test_a_config_of_another_type_is_named_also_by_plain_commands(
    valkey: Server, queue: ReliableQueue
) -> None:
    valkey.call("SET", "cq:{q}:config", "in the way")
    for call in (queue.policy(), queue.set_policy(Policy()), queue.apply_failed_policy()):
        with pytest.raises(StoreMisused, match=r"cq:\{q\}:config"):
            await call


async def test_a_config_that_no_release_wrote_names_the_field(valkey: Server, queue: ReliableQueue) -> None:
    valkey.call("HSET", "cq:{q}:config", "requeue_limit", "many")
    with pytest.raises(StoreMisused, match=r"cq:\{q\}:config.*requeue_limit.*'many'"):
        await queue.policy()


async def _fill(queue: ReliableQueue) -> int:
    for stored in range(0, 20_000, 20):
        try:
            await queue.enqueue_many(["x" * 10_000] * 20)
        except StoreFull:
            return stored
    raise AssertionError("the server takes it all")


async def test_a_full_server_refuses_items_and_everything_else_goes_on(start_server: ServerFactory) -> None:
    server = start_server("valkey", {"maxmemory": "12mb", "maxmemory-policy": "noeviction"})
    async with connected(server.url) as queue:
        stored = await _fill(queue)
        assert await queue.length() == stored
        claims = await queue.claim(10, wait=0)
        assert len(claims) == 10, "claims go on"
        assert [outcome.verdict for outcome in await queue.renew(claims)] == [Verdict.RENEWED] * 10
        assert [o.verdict for o in await queue.fail(claims[:2], "no", permanent=True)] == [Verdict.FAILED] * 2
        assert [o.verdict for o in await queue.requeue(claims[2:4])] == [Verdict.REQUEUED] * 2
        assert [o.verdict for o in await queue.unclaim(claims[4:6])] == [Verdict.UNCLAIMED] * 2
        assert (await queue.release_worker("w1")).requeued == 4
        await queue.reap()
        with pytest.raises(StoreFull):
            await queue.enqueue("x" * 10_000)
        done = 0
        while claims := await queue.claim(100, wait=0):
            done += len(await queue.done(claims))
        assert done == stored - 2
        assert (await queue.enqueue("x" * 10_000)).length == 1


async def test_a_multi_call_enqueue_that_fills_the_server_keeps_the_calls_that_succeeded(
    start_server: ServerFactory,
) -> None:
    server = start_server("valkey", {"maxmemory": "12mb", "maxmemory-policy": "noeviction"})
    async with connected(server.url) as queue:
        with pytest.raises(StoreFull):
            await queue.enqueue_many(["x" * 1000] * 20_000)
        assert await queue.length() % 1000 == 0


async def test_a_script_cache_flushed_again_and_again_under_load_fails_nothing(
    valkey: Server, store: claimq.Server
) -> None:
    done: list[str] = []
    total = 150

    async def produce() -> None:
        for number in range(total):
            await store.queue("q").enqueue(str(number), id=f"i{number}")

    async def work(name: str) -> None:
        queue = store.queue("q", worker=name)
        while len(done) < total:
            claims = await queue.claim(7, wait=0.01)
            await queue.renew(claims)
            for outcome in await queue.done(claims):
                assert outcome.verdict is Verdict.DONE
            done.extend(claim.item.text for claim in claims)

    async def flush() -> None:
        while len(done) < total:
            await asyncio.to_thread(valkey.call, "SCRIPT", "FLUSH")
            await asyncio.sleep(0.002)

    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(produce(), work("w1"), work("w2"), work("w3"), flush())
    assert sorted(map(int, done)) == list(range(total))


async def test_a_connection_cut_in_the_middle_of_a_blocked_claim_is_replaced(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with connected(proxy.url, retry_for=60) as queue:
        waiting = asyncio.ensure_future(queue.claim(wait=PATIENCE))
        for _ in range(3):
            await eventually(lambda: b"blpop" in connected_clients(valkey))
            proxy.cut()
        await eventually(lambda: b"blpop" in connected_clients(valkey))
        await queue.enqueue("a")
        async with asyncio.timeout(PATIENCE):
            assert texts(await waiting) == ["a"]


async def test_a_blocked_claim_whose_server_stays_away_says_so(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with connected(proxy.url) as queue:
        waiting = asyncio.ensure_future(queue.claim(wait=None))
        await eventually(lambda: b"blpop" in connected_clients(valkey))
        proxy.refuse()
        with pytest.raises(StoreUnavailable):
            async with asyncio.timeout(FAST + 60):
                await waiting
        proxy.heal()
        await queue.enqueue("a")
        assert len(await queue.claim()) == 1


async def test_a_blocked_claim_survives_a_restart_of_its_server(start_server: ServerFactory) -> None:
    server = start_server("valkey", {"appendonly": "yes", "appendfsync": "always"})
    async with connected(server.url, retry_for=60) as queue:
        waiting = asyncio.ensure_future(queue.claim(wait=PATIENCE))
        await eventually(lambda: b"blpop" in connected_clients(server))
        server.kill9()
        server.start()
        await queue.enqueue("a")
        async with asyncio.timeout(PATIENCE):
            assert texts(await waiting) == ["a"]


async def test_waiting_claims_never_starve_verdicts(queue: ReliableQueue, store: claimq.Server) -> None:
    await queue.enqueue("held")
    (held,) = await queue.claim(wait=0)
    waiting = [
        asyncio.ensure_future(store.queue("q", worker=f"w{n}").claim(wait=PATIENCE)) for n in range(200)
    ]
    await asyncio.sleep(0.2)
    for _ in range(20):
        async with asyncio.timeout(PATIENCE):  # which a starved one would not meet
            assert [outcome.verdict for outcome in await queue.renew(held)] == [Verdict.RENEWED]
    assert [outcome.verdict for outcome in await queue.done(held)] == [Verdict.DONE]
    await queue.enqueue_many([str(number) for number in range(200)])
    async with asyncio.timeout(PATIENCE):
        claimed = [claim for claims in await asyncio.gather(*waiting) for claim in claims]
    assert len({claim.item.id for claim in claimed}) == 200


async def test_a_wrong_password_and_a_missing_right_say_what_to_change(valkey: Server) -> None:
    valkey.call("ACL", "SETUSER", "worker", "on", ">right", "~cq:*", "+@all", "-eval", "-evalsha")
    url = f"unix://worker:{{}}@{valkey.unix_path}?db=0"
    async with connected(url.format("very-secret")) as queue:
        with pytest.raises(StoreMisused, match="correct them") as caught:
            await queue.enqueue("a")
        assert "very-secret" not in str(caught.value)
    async with connected(url.format("right")) as queue:
        with pytest.raises(StoreMisused, match="ACL"):
            await queue.enqueue("a")
    valkey.call("ACL", "DELUSER", "worker")


async def test_a_shared_client_stays_open_and_serves_all_operations(valkey: Server) -> None:
    client = redis.asyncio.Redis(unix_socket_path=str(valkey.unix_path), socket_timeout=PATIENCE)
    async with claimq.connect(client=client) as store:
        queue = store.queue("q", worker="w1")
        await queue.enqueue("a")
        assert [o.verdict for o in await queue.done(await queue.claim())] == [Verdict.DONE]
        assert await queue.claim(wait=0.05) == []
    assert await client.ping() is True
    await client.aclose()


async def test_a_shared_client_that_decodes_replies_is_refused_at_once(valkey: Server) -> None:
    client = redis.asyncio.Redis(unix_socket_path=str(valkey.unix_path), decode_responses=True)
    with pytest.raises(ValueError, match="decode_responses=False"):
        claimq.connect(client=client)
    await client.aclose()


async def test_a_closed_connection_says_so(valkey: Server) -> None:
    async with connected(valkey.url) as queue:
        await queue.enqueue("a")
    for call in (queue.enqueue("b"), queue.claim(), queue.lengths()):
        with pytest.raises(StoreUnavailable, match="connect again"):
            await call


async def test_two_ways_to_a_server_in_one_call_are_refused(valkey: Server) -> None:
    with pytest.raises(ValueError, match="give one of"):
        claimq.connect(valkey.url, settings=RedisSettings(url=valkey.url))


async def test_an_unreachable_store_leaves_a_queue_usable_afterwards(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with connected(proxy.url) as queue:
        await queue.enqueue("a")
        (claim,) = await queue.claim()
        proxy.refuse()
        for call in (
            queue.enqueue("b"),
            queue.renew(claim),
            queue.done(claim),
            queue.lengths(),
            queue.claim(),
        ):
            with pytest.raises(StoreUnavailable):
                await call
        proxy.heal()
        assert [outcome.verdict for outcome in await queue.done(claim)] == [Verdict.DONE]
        assert (await queue.lengths())[State.MAIN] == 0


async def test_after_a_cut_one_try_is_lost_and_not_one_for_each_idle_connection(
    valkey: Server, start_proxy: ProxyFactory
) -> None:
    proxy = start_proxy(valkey)
    async with connected(proxy.url, retry_for=60) as queue:
        proxy.delay(0.01)
        await asyncio.gather(*(queue.enqueue_many(["a", "b"]) for _ in range(12)))
        assert proxy.opened >= 12
        proxy.delay(0)
        proxy.cut()
        async with asyncio.timeout(PATIENCE):
            await queue.enqueue("b")
