"""Presence: the server sees the end of a process that consumes, and a sweep ends its claims before their leases."""

from collections.abc import Iterator

import pytest

import claimq
from claimq import Policy, ReliableQueue, Verdict
from claimq.redis_store.scripts import Arg
from testkit.queues.clock import move_clock
from testkit.queues.looking import Lengths, lengths, texts
from testkit.servers.resp import Connection
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

pytestmark = pytest.mark.frozen_clock(True)
PRESENT = "cq:{q}:present"
GONE = "the process of w1 is gone: its connection closed"


class Process:
    """What the server sees of the process behind a queue's connection."""

    def __init__(self, server: Server, queue: ReliableQueue) -> None:
        self._server = server
        self._queue = queue
        self.instance = queue._connection.lanes.instance
        self._channel = f"cq:{{q}}:present:{self.instance}"
        self._socket: Connection | None = None

    def connect(self) -> None:
        self._socket = Connection(self._server.unix_path, PATIENCE)
        self._socket.call("SUBSCRIBE", self._channel)

    async def announce(self, *, is_here: bool = True) -> bool:
        connection = self._queue._connection
        words: list[Arg] = [self.instance, self._queue.worker, int(is_here)]
        reply: list[object] = await connection.run("announce", ["cq:{q}:main"], words)
        return reply[1] == 1

    async def die(self) -> None:
        """Returns when the server has seen it: the kernel closes the connections of a process that ends."""
        self.close()
        await eventually(
            lambda: self._server.call("PUBSUB", "NUMSUB", self._channel) == [self._channel.encode(), 0]
        )

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


@pytest.fixture
def process(server: Server, queue: ReliableQueue) -> Iterator[Process]:
    """The process that w1 is, connected but not announced."""
    made = Process(server, queue)
    made.connect()
    yield made
    made.close()


async def sweep(queue: ReliableQueue, seconds: float) -> list[Verdict]:
    """Moves the clock and reaps; what became of claims that ended."""
    await move_clock(queue, seconds)
    return [outcome.verdict for outcome in (await queue.reap()).expired]


async def test_claims_of_a_killed_process_end_long_before_their_leases(
    server: Server, queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue_many(["a", "b"])
    assert await process.announce()
    await queue.claim(2, wait=0)
    await process.die()
    assert await sweep(queue, 1.0) == []  # the first look: it may be connecting again
    assert await sweep(queue, 3.0) == []
    assert await sweep(queue, 0.001) == [Verdict.REQUEUED] * 2
    (item, other) = await queue.peek(2)
    assert (item.text, item.crash_count, item.last_error, other.text) == ("a", 1, GONE, "b")
    assert server.call("EXISTS", PRESENT) == 0
    assert (await queue.stats())["expired"] == 2


async def test_a_process_whose_connection_is_open_keeps_its_claims_however_slow_it_is(
    queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    for _ in range(7):  # stopped or blocked: no call of it arrives
        assert await sweep(queue, 4.0) == []
    assert await sweep(queue, 4.0) == [Verdict.REQUEUED]
    (item,) = await queue.peek()
    assert item.last_error == "the lease of w1 ran out"


async def test_a_process_that_connects_again_in_time_keeps_its_claims(
    queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    for _ in range(2):
        await process.die()
        assert await sweep(queue, 1.0) == []
        process.connect()
        assert await sweep(queue, 3.1) == []
    assert await lengths(queue) == Lengths(busy=1)


async def test_a_waiting_claim_asks_again_in_time_to_see_that_a_process_is_gone(
    queue: ReliableQueue, other_worker: ReliableQueue, process: Process
) -> None:
    await process.announce()
    assert (await other_worker._claim_once(1, None)).next_due_in is None
    await process.die()
    await sweep(queue, 1.0)
    assert (await other_worker._claim_once(1, None)).next_due_in == pytest.approx(3.0)


async def test_a_claim_without_any_reaper_ends_the_claims_of_a_killed_process(
    queue: ReliableQueue, other_worker: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    await process.die()
    for seconds in (1.0, 3.1):
        await move_clock(queue, seconds)
        claims = await other_worker.claim(wait=0)
    assert texts(claims) == ["a"]


async def test_only_the_claims_of_the_process_end_not_all_of_its_name(
    server: Server, store: claimq.Server, queue: ReliableQueue, process: Process
) -> None:
    """A program that is started again under its fixed name claims before its predecessor is found to be gone."""
    await queue.enqueue_many(["before", "after"])
    await process.announce()
    await queue.claim(1, wait=0)
    await process.die()
    successor = claimq.connect(client=store._connection.clients.shared).queue("q", worker="w1")
    (kept,) = await successor.claim(1, wait=0)
    assert await sweep(queue, 1.0) == []
    assert await sweep(queue, 3.1) == [Verdict.REQUEUED]
    (outcome,) = await successor.done(kept)
    assert outcome.verdict is Verdict.DONE


async def test_a_process_that_has_taken_leave_is_up_to_its_leases(
    server: Server, queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    assert server.call("ZCARD", PRESENT) == 1
    await process.announce(is_here=False)
    assert server.call("ZCARD", PRESENT) == 0
    await queue.claim(wait=0)
    await process.die()
    for _ in range(7):
        assert await sweep(queue, 4.0) == []


async def test_a_process_that_the_server_does_not_see_is_not_noted(
    server: Server, queue: ReliableQueue, process: Process
) -> None:
    await process.die()
    assert not await process.announce()
    assert server.call("EXISTS", PRESENT) == 0


async def test_after_the_server_was_replaced_a_process_that_is_away_is_up_to_its_leases(
    server: Server, queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    await process.die()  # as every connection when a server fails
    server.call("HSET", "cq:{q}:stats", "server", "another process")
    for _ in range(7):
        assert await sweep(queue, 4.0) == []
    assert server.call("EXISTS", PRESENT) == 0


async def test_nothing_is_looked_at_in_a_period_of_grace(queue: ReliableQueue, process: Process) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    await process.die()
    await sweep(queue, 1.0)
    await move_clock(
        queue, 6.0, gap=True
    )  # the clock leapt, or the server stood still: connections come back
    assert (await queue.reap()).expired == ()
    process.connect()
    assert await sweep(queue, 9.0) == []
    assert await sweep(queue, 1.1) == []
    assert await lengths(queue) == Lengths(busy=1)


async def test_a_sweep_ends_as_many_claims_as_it_is_asked_for_and_the_next_goes_on(
    queue: ReliableQueue, process: Process
) -> None:
    await queue.set_policy(Policy(on_expiry="drop"))
    await queue.enqueue_many([str(number) for number in range(5)])
    await process.announce()
    tokens = [claim.token for claim in await queue.claim(5, wait=0)]
    await process.die()
    await sweep(queue, 1.0)
    await move_clock(queue, 3.1)
    first = await queue.reap(2)
    assert ([one.token for one in first.expired], first.more) == (tokens[:2], True)
    rest = await queue.reap(100)
    assert ([one.token for one in rest.expired], rest.more) == (tokens[2:], False)


async def test_a_record_that_no_process_has_written_is_forgotten_and_stops_no_sweep(
    server: Server, queue: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    look_at = server.call("ZSCORE", PRESENT, f"{process.instance} w1")
    assert isinstance(look_at, bytes)
    for forged in ("", " ", "x", " w1", "x w2"):
        server.call("ZADD", PRESENT, look_at, forged)
    await process.die()
    assert await sweep(queue, 1.0) == []
    assert await sweep(queue, 3.001) == [Verdict.REQUEUED]
    assert server.call("EXISTS", PRESENT) == 0


async def test_a_user_without_the_right_looks_at_nothing_and_is_asked_for_nothing(
    server: Server, queue: ReliableQueue, other_worker: ReliableQueue, process: Process
) -> None:
    await queue.enqueue("a")
    await process.announce()
    await queue.claim(wait=0)
    await process.die()
    server.call("ACL", "SETUSER", "default", "-pubsub|numsub")
    try:
        for _ in range(2):
            assert await sweep(queue, 4.0) == []
        assert not (await other_worker._claim_once(1, None)).again
    finally:
        server.call("ACL", "SETUSER", "default", "+pubsub|numsub")
