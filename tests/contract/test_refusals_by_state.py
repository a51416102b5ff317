"""Refusals that are not about a key's type: too large, full, stale, lost, known, read-only. None changes anything."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import redis.asyncio

import claimq
from claimq import (
    Done,
    FailedPolicy,
    ItemTooLarge,
    NewItem,
    Outcome,
    Policy,
    ReliableQueue,
    State,
    StoreFull,
    StoreUnavailable,
    Verdict,
)
from testkit.queues.clock import move_clock
from testkit.queues.looking import texts
from testkit.servers.contents import changes, contents
from testkit.servers.patient import open_server
from testkit.servers.server import Server

Verb = Callable[[ReliableQueue, list[str]], Awaitable[object]]
VERDICTS: dict[str, Callable[[ReliableQueue, list[str]], Awaitable[list[Outcome]]]] = {
    "done": lambda queue, tokens: queue.done(tokens),
    "done with followers": lambda queue, tokens: queue.done([Done(token, ["next"]) for token in tokens]),
    "fail": lambda queue, tokens: queue.fail(tokens, "broken"),
    "fail permanently": lambda queue, tokens: queue.fail(tokens, "broken", permanent=True),
    "requeue": lambda queue, tokens: queue.requeue(tokens, delay=1),
    "unclaim": lambda queue, tokens: queue.unclaim(tokens),
    "crash": lambda queue, tokens: queue.crash(tokens, "killed"),
}
OTHERS: dict[str, Verb] = {
    "enqueue": lambda queue, _: queue.enqueue_many(["a", NewItem("b", client="ann")]),
    "claim": lambda queue, _: queue.claim(wait=0),
    "release_worker": lambda queue, _: queue.release_worker("w1"),
    "requeue_failed": lambda queue, _: queue.requeue_failed(),
    "remove_failed": lambda queue, _: queue.remove_failed(),
    "flush": lambda queue, _: queue.flush(),
}


async def _held(queue: ReliableQueue) -> list[str]:
    await queue.enqueue_many(["a", "b", "c"])
    return [claim.token for claim in await queue.claim(2, wait=0)]


@pytest.mark.parametrize("verb", VERDICTS)
async def test_a_verdict_on_lost_claims_changes_nothing(
    server: Server, queue: ReliableQueue, verb: str
) -> None:
    lost = await _held(queue)
    await queue.unclaim(lost)
    held = [claim.token for claim in await queue.claim(2, wait=0)]
    before = contents(server)
    outcomes = await VERDICTS[verb](queue, [*lost, "w1/77.AAAAAAAA", "elsewhere/1.AAAAAAAA", "w1/1.AAAAAAAA"])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.LOST] * 5
    assert changes(before, contents(server)) == {}
    assert len(held) == 2


@pytest.mark.parametrize("verb", VERDICTS)
@pytest.mark.parametrize("text", ["TOKEN", "", "w1/1.short"])
async def test_a_verdict_on_text_that_is_not_a_token_is_an_argument_error(
    server: Server, queue: ReliableQueue, verb: str, text: str
) -> None:
    held = await _held(queue)
    before = contents(server)
    with pytest.raises(
        ValueError, match=r"is not the token of a claim; a token looks like worker-1/17\d+\.\S{8}"
    ):
        await VERDICTS[verb](queue, [*held, text])
    assert changes(before, contents(server)) == {}


async def test_renewing_lost_claims_changes_nothing(server: Server, queue: ReliableQueue) -> None:
    lost = await _held(queue)
    await queue.unclaim(lost)
    before = contents(server)
    outcomes = await queue.renew([*lost, "w1/1.AAAAAAAA"])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.LOST] * 3
    assert changes(before, contents(server)) == {}


@pytest.mark.parametrize(
    "name", [*VERDICTS, *OTHERS]
)  # renew, reap and repair carry no number: sending them again is harmless by nature
async def test_a_call_that_a_later_one_of_its_lane_has_overtaken_changes_nothing(
    server: Server, queue: ReliableQueue, name: str
) -> None:
    tokens = await _held(queue)
    connection = queue._connection
    await queue.fail(tokens[1], "broken", permanent=True)
    connection.lanes._calls = {lane: number - 2 for lane, number in connection.lanes._calls.items()}
    before = contents(server)
    with pytest.raises(StoreUnavailable, match="make the call again"):
        await (VERDICTS | OTHERS)[name](queue, tokens)
    assert changes(before, contents(server)) == {}


@pytest.mark.parametrize("position", [0, 1, 2, 3])
async def test_a_payload_over_the_limit_refuses_the_whole_call(
    server: Server, store: claimq.Server, queue: ReliableQueue, position: int
) -> None:
    await queue.set_policy(Policy(max_payload=10))
    items = [NewItem("a"), NewItem("b", client="ann"), NewItem("c", id="mine"), NewItem("d", delay=9)]
    items[position] = NewItem(
        "x" * 11, items[position].id, items[position].client, items[position].delay, items[position].at
    )
    before = contents(server)
    with pytest.raises(ItemTooLarge) as caught:
        await queue.enqueue_many(items)
    assert (caught.value.size, caught.value.limit, caught.value.index) == (11, 10, position)
    assert "enqueue a reference" in str(caught.value)
    with pytest.raises(ItemTooLarge):
        await store.enqueue({"other": ["a"], "q": items})
    assert changes(before, contents(server)) == {}


async def test_an_oversized_payload_in_a_later_batch_is_refused_before_any_is_stored(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.set_policy(Policy(max_payload=10))
    before = contents(server)
    with pytest.raises(ItemTooLarge) as caught:
        await queue.enqueue_many(["a"] * 2500 + ["x" * 11] + ["a"])
    assert caught.value.index == 2500
    assert changes(before, contents(server)) == {}


async def test_a_follower_over_the_limit_leaves_its_claim_held(
    server: Server, store: claimq.Server, queue: ReliableQueue
) -> None:
    await store.queue("other").set_policy(Policy(max_payload=10))
    one, two = await _held(queue)
    before = contents(server)
    with pytest.raises(ItemTooLarge):
        await queue.done([Done(one, ["fine"]), Done(two, {"other": ["x" * 11]})])
    assert changes(before, contents(server)) == {}
    assert [outcome.verdict for outcome in await queue.done([one, two])] == [Verdict.DONE] * 2


async def test_the_limit_itself_may_be_reached(queue: ReliableQueue) -> None:
    await queue.set_policy(Policy(max_payload=10))
    assert (await queue.enqueue("x" * 10)).length == 1


async def test_ids_that_are_all_known_add_nothing(server: Server, queue: ReliableQueue) -> None:
    await queue.enqueue_many([NewItem("a", id="one"), NewItem("b", id="two", delay=9)])
    before = contents(server)
    again = await queue.enqueue_many([NewItem("c", id="two"), NewItem("d", id="one", client="ann")])
    assert again.ids == again.duplicates == ("two", "one")
    kept = f"cq:{{q}}:calls:{queue._connection.lanes.instance}"  # the reply of the lane's last call, and nothing else
    assert set(changes(before, contents(server))) <= {kept}


async def test_a_full_server_refuses_what_takes_memory_and_nothing_has_changed(
    server: Server, queue: ReliableQueue
) -> None:
    one, two = await _held(queue)
    await queue.fail(two, "broken", permanent=True)
    server.call("CONFIG", "SET", "maxmemory", "1")
    before = contents(server)
    for refused in (
        queue.enqueue("x"),
        queue.enqueue("x", id="mine", client="ann", delay=3),
        queue.done(one, enqueue=["next"]),
        queue.requeue_failed(),
    ):
        with pytest.raises(StoreFull, match="give it more memory"):
            await refused
    assert changes(before, contents(server)) == {}


class FullAfter:
    """Stands for a client whose server is full after so many calls of scripts."""

    def __init__(self, server: Server, client: redis.asyncio.Redis, calls: int) -> None:
        self._server, self._client, self._left = server, client, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def evalsha(self, *words: Any) -> Any:
        """As the client's."""
        if self._left == 0:
            self._server.call("CONFIG", "SET", "maxmemory", "1")
        self._left -= 1
        call: Any = self._client.evalsha
        return await call(*words)


async def test_a_call_of_several_steps_keeps_those_before_the_refused_one(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("the server knows the script")
    client = redis.asyncio.Redis(unix_socket_path=str(server.unix_path))
    async with client, claimq.connect(client=FullAfter(server, client, 2)) as store:
        with pytest.raises(StoreFull):
            await store.queue("q").enqueue_many([str(number) for number in range(2500)])
    assert texts(await queue.peek(5000))[1:] == [str(number) for number in range(2000)]


async def test_a_full_server_takes_a_policy_a_pause_and_the_end_of_the_queue(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue("a")
    server.call("CONFIG", "SET", "maxmemory", "1")
    # Each of them is a way out: fewer failed items kept, no more claims, all of it gone.
    wanted = Policy(suspended=True, failed=FailedPolicy(max_items=1))
    await queue.set_policy(wanted)
    await queue.pause()
    assert (await queue.snapshot()).paused
    await queue.resume()
    assert await queue.policy() == wanted
    assert await queue.delete() is not None


async def test_a_read_only_replica_refuses_every_call_and_nothing_has_changed(
    server: Server, queue: ReliableQueue
) -> None:
    tokens = await _held(queue)
    await queue.fail(tokens[1], "broken", permanent=True)
    server.call("REPLICAOF", "127.0.0.1", "1")
    before = contents(server)
    async with open_server(server.url, retry_for=0.001) as store:
        impatient = store.queue("q", worker="w1")
        calls = [verb(impatient, tokens[:1]) for verb in (VERDICTS | OTHERS).values()]
        calls += [
            impatient.renew(tokens[:1]),
            impatient.reap(),
            impatient.release_worker("w1"),
            impatient.flush(),
        ]
        calls += [impatient.requeue_failed(), impatient.remove_failed(), impatient.set_policy(Policy())]
        calls += [impatient.peek(9)]  # what a replica has may be old
        for call in calls:
            with pytest.raises(StoreUnavailable, match="is a replica now"):
                await call
        assert changes(before, contents(server)) == {}
        assert "IsReplica" in [warning.code for warning in (await store.report()).warnings]


async def test_the_policy_for_failed_items_works_on_a_full_server(
    server: Server, queue: ReliableQueue
) -> None:
    await queue.enqueue_many(["x"] * 50)
    await queue.fail(await queue.claim(50, wait=0), "no", permanent=True)
    await queue.set_policy(
        Policy(failed=FailedPolicy(remove_min_age=0.001, remove_min_given_up_count=5, max_items=3))
    )
    await move_clock(queue, 1)
    server.call("CONFIG", "SET", "maxmemory", "1")
    assert (await queue.apply_failed_policy()).removed == 47
    assert await queue.length(State.FAILED) == 3
