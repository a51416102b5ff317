"""The blocking facade: the same operations and results, for threads, forks and Ctrl-C."""

import asyncio
import ctypes
import inspect
import os
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
import redis.asyncio

import claimq.blocking
from claimq import (
    Item,
    NewItem,
    Policy,
    ReliableQueue,
    State,
    StoreUnavailable,
    Verdict,
)
from claimq.blocking import BlockingQueue, BlockingServer
from testkit.programs.processes import Process
from testkit.queues.looking import connected_clients, texts
from testkit.servers.patient import open_blocking_queue, open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync


@pytest.fixture
def blocking(valkey: Server) -> Iterator[BlockingServer]:
    with open_blocking_server(valkey.url, retry_for=2.0) as made:
        yield made


@pytest.fixture
def queue(blocking: BlockingServer) -> BlockingQueue:
    return blocking.queue("q", worker="w1")


def test_every_operation_of_a_queue_is_there_with_its_parameters_and_its_words() -> None:
    public = {name for name, _ in inspect.getmembers(ReliableQueue, inspect.isfunction) if name[0] != "_"}
    assert public - {name for name in dir(BlockingQueue) if name[0] != "_"} == set()
    for name in public:
        method = getattr(ReliableQueue, name)
        bound = vars(BlockingQueue)[name].__get__(None, BlockingQueue)
        assert inspect.signature(bound) == inspect.signature(method), name
        assert bound.__doc__ == method.__doc__


def test_a_whole_life_of_items(queue: BlockingQueue, blocking: BlockingServer) -> None:
    assert queue.enqueue_many(["a", "b", "c", "d"]).length == 4
    assert blocking.enqueue({"q": ["e"]})["q"].length == 5
    a, b, c, d = queue.claim(4, wait=0)
    assert texts((a, b, c, d)) == ["a", "b", "c", "d"]
    assert queue.renew(a)[0].verdict is Verdict.RENEWED
    assert queue.done(a)[0].verdict is Verdict.DONE
    assert queue.fail(b, "no", permanent=True)[0].verdict is Verdict.FAILED
    assert queue.requeue(c, delay=60)[0].verdict is Verdict.DELAYED
    assert queue.unclaim(d)[0].verdict is Verdict.UNCLAIMED
    assert queue.lengths() == {State.MAIN: 2, State.BUSY: 0, State.DELAYED: 1, State.FAILED: 1}
    assert texts(queue.peek(9)) == ["d", "e"]
    found = queue.find(b.item.id)
    assert found is not None
    assert found.state is State.FAILED
    assert queue.requeue_failed() == 1
    queue.fail(queue.claim(9, wait=0), "again", permanent=True)
    assert sorted(located.item.text for located in queue.drain_failed(chunk=2)) == ["b", "d", "e"]
    assert queue.length(State.FAILED) == 0
    assert queue.flush()[State.DELAYED] == 1
    blocking.ping()
    assert blocking.report().flavour == "valkey"


def test_a_drain_that_is_left_early_keeps_the_chunk(queue: BlockingQueue) -> None:
    queue.enqueue_many(["a", "b"])
    queue.fail(queue.claim(2, wait=0), "no", permanent=True)
    for _ in queue.drain_failed():
        break
    assert queue.length(State.FAILED) == 2


def test_many_threads_share_one_queue(queue: BlockingQueue) -> None:
    queue.enqueue_many([str(number) for number in range(200)])
    done: list[str] = []

    def work() -> None:
        while claims := queue.claim(5, wait=0):
            done.extend(claim.item.text for claim in claims)
            assert all(outcome.verdict is Verdict.DONE for outcome in queue.done(claims))

    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(work) for _ in range(8)]:
            future.result()
    assert sorted(map(int, done)) == list(range(200))


def test_a_closed_connection_says_so(valkey: Server) -> None:
    with open_blocking_queue(valkey.url) as queue:
        queue.enqueue("a")
    with pytest.raises(StoreUnavailable, match="connect again"):
        queue.enqueue("b")


def test_closing_leaves_no_connection_and_no_thread(valkey: Server) -> None:
    before = set(threading.enumerate())  # those of other tests may end in between
    with open_blocking_queue(valkey.url) as queue:
        queue.claim(wait=0)
        assert len(set(threading.enumerate()) - before) == 1
    assert set(threading.enumerate()) <= before
    eventually_sync(lambda: _clients(valkey) == 1, why="only the one that asks is connected")


def _clients(valkey: Server) -> int:
    reply = valkey.call("CLIENT", "LIST")
    assert isinstance(reply, bytes)
    return len(reply.splitlines())


def test_a_call_under_way_when_another_thread_closes_ends_with_our_error(valkey: Server) -> None:
    server = open_blocking_server(valkey.url)
    queue = server.queue("q")
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(queue.claim, 1, wait=None)
        eventually_sync(lambda: b"cmd=blpop" in connected_clients(valkey))
        server.close()
        with pytest.raises(StoreUnavailable):
            waiting.result(PATIENCE)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("fork", [os.fork, ctypes.PyDLL(None).fork])
def test_a_child_after_a_fork_is_asked_to_connect_again(
    queue: BlockingQueue, blocking: BlockingServer, fork: Callable[[], int]
) -> None:
    """Also after one that runs no hooks of Python, such as uWSGI's."""
    queue.enqueue("a")
    child = fork()
    if child == 0:
        try:
            queue.claim(wait=0)
        except RuntimeError as error:
            blocking.close()  # is the parent's: nothing happens
            os._exit(0 if "connect again in the child" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert texts(queue.claim(wait=0)) == ["a"]


def test_ctrl_c_in_a_waiting_claim_loses_nothing(
    queue: BlockingQueue, valkey: Server, tmp_path: Path
) -> None:
    """The claim is cancelled and its end waited for: what it got by then goes back."""
    code = """
        import claimq.blocking, sys
        settings = claimq.RedisSettings(sys.argv[1], reply_timeout=300, retry_for=300)
        with claimq.blocking.connect(settings=settings) as server:
            queue = server.queue("q", worker="w2")
            try:
                queue.claim(wait=None)
            except KeyboardInterrupt:
                print("interrupted", queue.length("main"), flush=True)
    """
    log = tmp_path / "log"
    with Process([sys.executable, "-c", textwrap.dedent(code), valkey.url], log=log) as program:
        eventually_sync(lambda: b"cmd=blpop" in connected_clients(valkey))
        program.send(signal.SIGINT)
        assert program.wait() == 0
    assert log.read_text() == "interrupted 0\n"
    queue.enqueue("a")
    assert texts(queue.claim(wait=0)) == ["a"]


def test_consume_takes_the_same_options(queue: BlockingQueue) -> None:
    queue.enqueue_many([NewItem(str(number)) for number in range(5)])
    seen: list[str] = []
    consumed = queue.consume(lambda item: seen.append(item.text), chunk=2, max_items=3)
    assert (consumed.done, consumed.stopped_by) == (3, "max_items")
    assert seen == ["0", "1", "2"]


def test_consume_in_another_thread_leaves_the_signals_alone(queue: BlockingQueue) -> None:
    before = signal.getsignal(signal.SIGTERM)
    queue.enqueue("a")
    with ThreadPoolExecutor(1) as thread:
        consumed = thread.submit(queue.consume, str, return_when_empty=True).result(PATIENCE)
    assert consumed.done == 1
    assert signal.getsignal(signal.SIGTERM) is before


def test_consume_puts_the_signal_handlers_back(queue: BlockingQueue) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    queue.consume(print, return_when_empty=True)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_handler_that_exits_ends_the_program_and_not_the_connection(queue: BlockingQueue) -> None:
    queue.enqueue("a")

    def handler(item: Item) -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        queue.consume(handler)
    assert texts(queue.peek()) == ["a"]

    async def asynchronous(item: Item) -> None:
        await asyncio.sleep(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        queue.consume(asynchronous)
    assert texts(queue.peek()) == ["a"]


def test_a_blocking_call_of_an_asynchronous_handler_is_refused_before_it_is_sent(
    queue: BlockingQueue, blocking: BlockingServer
) -> None:
    """It runs on the loop that would have to make the call."""
    queue.enqueue("a")
    errors: list[str] = []
    calls: list[Callable[[], object]] = [
        lambda: queue.enqueue("b"),
        lambda: queue.claim(wait=0),
        lambda: queue.enqueue_many(["c"]),
        queue.length,
        lambda: next(queue.drain_failed()),
        blocking.ping,
        blocking.close,
    ]

    async def handler(item: Item) -> None:
        for call in calls:
            with pytest.raises(
                RuntimeError, match=r"await the methods of claimq\.connect.*or call it in a thread"
            ):
                call()
            errors.append(item.text)
        assert await asyncio.to_thread(queue.length) == 0

    assert queue.consume(handler, max_items=1).done == 1
    assert len(errors) == len(calls)
    assert queue.lengths() == dict.fromkeys(State, 0)


def test_a_client_of_the_callers_own_is_used_and_stays_open(valkey: Server) -> None:
    client = redis.Redis.from_url(valkey.url, socket_timeout=PATIENCE)
    with claimq.blocking.connect(client=client) as server:
        queue = server.queue("q")
        queue.enqueue("a")
        waiting: list[str] = []
        thread = threading.Thread(
            target=lambda: waiting.extend(claim.item.text for claim in server.queue("other").claim(wait=60))
        )
        thread.start()
        (claim,) = queue.claim()
        assert [outcome.verdict for outcome in queue.done(claim)] == ["done"]
        server.queue("other").enqueue("b")
        thread.join(PATIENCE)
        assert waiting == ["b"]
        queue.enqueue("c")
        assert queue.consume(lambda _: None, return_when_empty=True).done == 1
        server.report()
    assert client.ping()
    assert client.keys("*:calls:*") == []
    client.close()


def test_every_reading_method_works_over_a_client_of_the_callers_own(valkey: Server) -> None:
    client = redis.Redis.from_url(valkey.url, socket_timeout=PATIENCE)
    with claimq.blocking.connect(client=client) as server:
        queue = server.queue("q", worker="w1")
        assert not queue.exists()
        assert queue.enqueue_many([NewItem(str(n), client="c") for n in range(1200)]).length == 1200
        queue.set_policy(Policy(requeue_limit=1))
        queue.update_policy(max_payload=99)
        assert (queue.policy().requeue_limit, queue.policy().max_payload) == (1, 99)
        first, second = queue.claim(2, wait=0)
        queue.fail(first, "no", permanent=True)
        assert [worker.worker for worker in queue.workers()] == ["w1"]
        assert (queue.exists(), queue.length(), queue.lengths()[State.FAILED]) == (True, 1198, 1)
        assert queue.snapshot().lengths == queue.lengths()
        assert queue.stats()["enqueued"] == 1200
        assert texts(queue.peek(1)) == ["2"]
        assert texts(queue.items(State.BUSY)) == ["1"]
        assert (found := queue.find(second.item.id)) is not None
        assert found.state is State.BUSY
        assert texts(queue.failed_items()) == ["0"]
        assert queue.failed_item(first.item.id) is not None
        assert queue.age() is not None
        assert (queue.has_client("c"), queue.client_length("c")) == (True, 1198)
        assert [client.length for client in queue.clients()] == [1198]
        assert queue.memory_usage().queue_bytes > 0
        assert queue.memory_share() is None
        assert (queue.audit_log(), queue.removed_items()) == ([], [])
        assert queue.release_worker("w1").total == 1
        queue.add_to_index()
        assert server.queues() == ["q"]
        queue.delete()
        assert not queue.exists()
    client.close()


def test_a_cluster_client_is_refused_with_what_to_give() -> None:
    client = object.__new__(redis.RedisCluster)  # making one connects
    with pytest.raises(TypeError, match=r"redis\.cluster\.RedisCluster.*For a Redis Cluster give its URL"):
        claimq.blocking.connect(client=client)


def test_a_client_of_another_kind_is_refused_with_what_to_give(valkey: Server) -> None:
    with pytest.raises(TypeError, match=r"shares a redis\.Redis"):
        claimq.blocking.connect(client=redis.asyncio.Redis.from_url(valkey.url))
    with pytest.raises(ValueError, match="decode_responses=False"):
        claimq.blocking.connect(client=redis.Redis.from_url(valkey.url, decode_responses=True))
