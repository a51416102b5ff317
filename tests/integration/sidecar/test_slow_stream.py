"""A stream whose client does not read, with a limit of a fraction of a second instead of a minute."""

import sys

from claimq.blocking import BlockingQueue
from claimq.model import State
from testkit.servers.server import Server
from testkit.waiting import eventually_sync
from testkit.workers.sidecars import StartSidecar

IMPATIENT = """
import runpy
from claimq_sidecar.http.connection.protocol import AppProtocol
AppProtocol.unread_seconds = 0.3
runpy.run_module("claimq_sidecar", run_name="__main__")
"""


def test_the_items_of_a_client_that_stops_reading_go_uncounted_to_another_one(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    impatient = start_sidecar(valkey.url, wrapper=(sys.executable, "-c", IMPATIENT), worker="impatient")
    queue.enqueue("x" * 500_000)  # more than fits into the socket
    queue.enqueue_many(["next", "after it"])
    impatient.open_stream(window=2)  # whose first line alone is read
    eventually_sync(lambda: impatient.info["sessions"] == 0, why="the client is disconnected")
    eventually_sync(lambda: queue.length(State.MAIN) == 3, why="what it has not read is back")
    # That of the line, and that of the line after it if it was claimed in time.
    assert impatient.metric('claimq_sidecar_given_back_items_total{cause="unread"}') >= 1
    items = start_sidecar(valkey.url).open_stream(window=3).items(3)
    assert [item["text"][:8] for item in items] == ["xxxxxxxx", "next", "after it"]
    counts = ("crash_count", "fail_count", "requeue_count")
    assert {item[count] for item in items for count in counts} == {0}


def test_more_of_a_large_window_waits_in_the_socket_while_there_is_memory_for_it(
    valkey: Server, queue: BlockingQueue, start_sidecar: StartSidecar
) -> None:
    sidecar = start_sidecar(valkey.url, memory="72Mi")  # room for two large send buffers

    def waiting(window: int) -> int:
        """Opens a stream that is not read; returns how many bytes of a line of 60,000 wait in its socket."""
        before = sidecar.info["in_flight"]
        queue.enqueue_many(["x"] * window)
        stream = sidecar.open_stream(window=window)
        eventually_sync(lambda: sidecar.info["in_flight"] == before + window)
        eventually_sync(lambda: sidecar.info and stream.unread_bytes() > 20_000)  # after the write
        return stream.unread_bytes()

    usual = 2 * 16 * 1024 + 4096  # the kernel doubles the size; the last write may exceed it
    assert [waiting(window) > usual for window in (499, 500, 500, 500)] == [False, True, True, False]
