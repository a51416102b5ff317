"""Blocking calls in the thread of their caller: a first try on a plain socket, else the event loop."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest
import redis.exceptions

import claimq.blocking
from claimq import ItemTooLarge, Limit, Outcome, Policy, RedisSettings, State, StoreMisused, StoreUnavailable
from claimq.blocking import BlockingQueue
from testkit.faults.proxy import FaultProxy
from testkit.plugin import ServerFactory
from testkit.queues.looking import is_empty, texts
from testkit.queues.retries import retrying_at_once
from testkit.servers.patient import open_blocking_queue, patient
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


@contextmanager
def connected(url: str) -> Generator[BlockingQueue]:
    with claimq.blocking.connect(settings=RedisSettings(url, reply_timeout=60, retry_for=60)) as server:
        queue = server.queue("q", worker="w")
        queue.enqueue("first")
        queue.done(queue.claim())  # the server has the scripts now
        yield queue


def clients_of(server: Server) -> bytes:
    listed = server.call("CLIENT", "LIST")
    assert isinstance(listed, bytes)
    return listed


def verdicts(outcomes: list[Outcome]) -> list[str]:
    return [outcome.verdict.value for outcome in outcomes]


def test_one_item_after_another_takes_one_connection_and_one_call_each(proxy: FaultProxy) -> None:
    with connected(proxy.url) as queue:
        opened, calls = proxy.opened, proxy.count("EVALSHA")
        for text in ("a", "b"):
            assert queue.enqueue(text).length == 1
            (claim,) = queue.claim(wait=0)
            assert claim.item.text == text
            assert verdicts(queue.done(claim)) == ["done"]
        assert queue.claim(wait=0) == []
        assert (proxy.opened - opened, proxy.count("EVALSHA") - calls) == (0, 7)


def test_a_call_without_a_reply_is_made_again_and_runs_once(proxy: FaultProxy) -> None:
    with connected(proxy.url) as queue:
        queue.set_policy(retrying_at_once())
        proxy.drop_reply()
        assert queue.enqueue("a").length == 1
        proxy.drop_reply()
        (claim,) = queue.claim(wait=0)
        proxy.drop_reply()
        assert verdicts(queue.fail(claim, "no")) == ["requeued"]
        (claim,) = queue.claim(wait=0)
        assert (claim.item.fail_count, claim.item.crash_count) == (1, 0)
        proxy.drop_reply()
        assert verdicts(queue.done(claim)) == ["done"]
        assert is_empty(queue)
        assert queue.stats()["enqueued"] == 2


def test_the_errors_are_those_of_the_event_loop(valkey: Server) -> None:
    with connected(valkey.url) as queue:
        valkey.call("SCRIPT", "FLUSH")
        assert queue.enqueue("a").length == 1
        queue.set_policy(Policy(max_payload=10))
        with pytest.raises(ItemTooLarge):
            queue.enqueue("x" * 11)
        valkey.call("SET", "cq:{other}:main", "text")
        with (
            open_blocking_queue(valkey.url, "other") as other,
            pytest.raises(StoreMisused, match=r"cq:\{other\}:main is a string and should be a list"),
        ):
            other.enqueue("a")
        with pytest.raises(ValueError, match="count is 0"):
            queue.claim(0)
    with pytest.raises(StoreUnavailable, match="closed"):
        queue.enqueue("b")


def test_a_server_that_refuses_the_connection_has_the_same_error_each_time(valkey: Server) -> None:
    with claimq.blocking.connect(valkey.url.replace("db=0", "db=99999")) as server:
        for _ in range(2):
            with pytest.raises(StoreMisused, match="the server returned an unknown error"):
                server.queue("q").enqueue("a")


def test_a_claim_waits_for_an_item_of_another_thread(valkey: Server) -> None:
    with connected(valkey.url) as queue:
        waiting = threading.Thread(target=lambda: claims.extend(queue.claim(wait=60)))
        claims: list[claimq.Claim] = []
        waiting.start()
        eventually_sync(lambda: b"cmd=blpop" in clients_of(valkey))
        queue.enqueue("a")
        waiting.join()
        assert texts(claims) == ["a"]


def test_a_claim_waits_until_a_rate_lets_the_next_item_start(valkey: Server) -> None:
    with connected(valkey.url) as queue:
        queue.set_policy(Policy(limits=[Limit("api", rate="20/s")]))
        queue.enqueue_many(["a", "b", "c"])
        claims = [claim for _ in range(3) for claim in queue.claim(wait=None)]
    assert texts(claims) == ["a", "b", "c"]


def test_threads_call_while_another_one_waits_for_its_reply(valkey: Server, proxy: FaultProxy) -> None:
    with connected(proxy.url) as queue:
        proxy.delay(0.2)
        threads = [threading.Thread(target=queue.enqueue, args=(str(number),)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        proxy.heal()
        assert queue.length() == 20


class LateError(TimeoutError):
    """What the handler of a signal raises: of a class that sockets raise too."""


class RefusedError(redis.exceptions.ResponseError):
    """What the handler of a signal raises: of a class that stands for a reply of the server too."""


@pytest.mark.parametrize("error", [LateError, RefusedError])
def test_a_signal_handler_ends_a_call_and_its_claim_goes_back(
    proxy: FaultProxy, error: type[Exception]
) -> None:
    def handler(_: int, __: FrameType | None) -> None:
        raise error

    with connected(proxy.url) as queue:
        queue.enqueue("a")
        before = signal.signal(signal.SIGUSR1, handler)
        proxy.black_hole("replies")
        thread = threading.main_thread()
        calls = proxy.count("EVALSHA")

        def interrupt() -> None:
            eventually_sync(lambda: proxy.count("EVALSHA") > calls)
            signal.pthread_kill(thread.ident or 0, signal.SIGUSR1)

        sender = threading.Thread(target=interrupt)
        sender.start()
        try:
            with pytest.raises(error):
                queue.claim(wait=0)
        finally:
            sender.join()
            signal.signal(signal.SIGUSR1, before)
            proxy.heal()
        eventually_sync(lambda: queue.lengths() == {**dict.fromkeys(State, 0), State.MAIN: 1})
        (claim,) = queue.claim(wait=10)
        assert (claim.item.crash_count, claim.item.requeue_count) == (0, 0)


def test_it_connects_by_tls_as_the_event_loop_does(start_server: ServerFactory) -> None:
    server = start_server("redis7", tls=True)
    assert server.certificates is not None
    settings = patient(server.tcp_url, ca_file=str(server.certificates.ca_file))
    with claimq.blocking.connect(settings=settings) as blocking:
        queue = blocking.queue("q")
        assert [queue.enqueue(text).length for text in "ab"] == [1, 2]
        assert clients_of(server).count(b"name=claimq") == 2
