"""How the facade for programs without an event loop ends: no thread of the caller's is left waiting."""

import gc
import threading

import pytest

from claimq import Item, StoreUnavailable, blocking
from testkit.servers.patient import open_blocking_queue, open_blocking_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually_sync


def test_closing_ends_the_calls_of_all_threads(valkey: Server) -> None:
    ended: list[BaseException] = []

    def call_on(queue: blocking.BlockingQueue) -> None:
        try:
            while True:
                queue.length()
        except BaseException as error:  # noqa: BLE001 - what it was is the question
            ended.append(error)

    for _ in range(10):
        server = open_blocking_server(valkey.url)
        threads = [threading.Thread(target=call_on, args=(server.queue("q"),), daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        server.ping()
        server.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert not any(thread.is_alive() for thread in threads)
    assert {type(error) for error in ended} == {StoreUnavailable}


def test_closing_while_a_plain_handler_is_at_work_ends_the_consume(valkey: Server) -> None:
    server = open_blocking_server(valkey.url)
    queue = server.queue("q")
    queue.enqueue("a")
    begun, may_end = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def handler(item: Item) -> None:
        begun.set()
        may_end.wait(PATIENCE)

    def consume() -> None:
        try:
            queue.consume(handler)
        except BaseException as error:  # noqa: BLE001 - what it was is the question
            raised.append(error)

    consuming = threading.Thread(target=consume, daemon=True)
    consuming.start()
    assert begun.wait(PATIENCE)
    server.close()
    consuming.join(PATIENCE)
    may_end.set()

    assert not consuming.is_alive()
    assert isinstance(raised[0], StoreUnavailable)
    with pytest.raises(StoreUnavailable, match="closed"):
        queue.length()


def test_closing_twice_does_nothing_the_second_time(valkey: Server) -> None:
    with open_blocking_server(valkey.url) as server:
        server.ping()
        server.close()


def test_an_iterator_that_is_left_until_after_the_closing_ends_without_an_error(valkey: Server) -> None:
    with open_blocking_queue(valkey.url) as queue:
        queue.enqueue_many(["a", "b"])
        queue.fail(queue.claim(2), "broken", permanent=True)
        items = queue.drain_failed(chunk=1)
        assert next(items).item.text == "a"
    del items
    gc.collect()  # an error here would be reported as one that is ignored, which fails the test


@pytest.mark.parametrize("in_main_thread", [True, False])
def test_an_event_of_another_thread_stops_a_consume(valkey: Server, in_main_thread: bool) -> None:
    stop, seen = threading.Event(), threading.Event()
    ended: list[str] = []
    with open_blocking_queue(valkey.url) as queue:
        queue.enqueue("a")

        def consume() -> None:
            ended.append(queue.consume(lambda _: seen.set(), stop=stop).stopped_by)

        def stop_it() -> None:
            seen.wait(PATIENCE)
            stop.set()

        other = threading.Thread(target=stop_it if in_main_thread else consume, daemon=True)
        other.start()
        (consume if in_main_thread else stop_it)()
        eventually_sync(lambda: ended)
        other.join(PATIENCE)

    assert ended == ["stop"]
