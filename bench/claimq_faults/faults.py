"""The faults: each is done to the servers or to a worker while producers and workers are busy."""

import time
from collections.abc import Callable, Mapping

from claimq_faults.load import LEASE
from claimq_faults.processes import Processes
from claimq_faults.servers import MAIN, Clustered, Servers
from testkit.queues.clock import MOVE, before_slewing
from testkit.servers.fsyncs import NotedServer
from testkit.waiting import eventually_sync

_SHORTER, _LONGER = LEASE / 2, LEASE * 1.5
_HOUR_MS = 3_600_000

Fault = Callable[[Servers, Processes], None]


def _kill_server(servers: Servers, _: Processes) -> None:
    primary = servers.primary()
    primary.kill9()
    primary.start()


def _power_failure(servers: Servers, _: Processes) -> None:
    """Of all servers at once: each file is cut where its last fsync left it."""
    noted = [server for server in servers.all() if isinstance(server, NotedServer)]
    for server in noted:
        server.kill9()
    for server in noted:
        server.lose_power()
    for server in noted:
        server.start()


def _stop_server(servers: Servers, _: Processes) -> None:
    primary = servers.primary()
    primary.sigstop()
    time.sleep(_SHORTER)
    primary.sigcont()


def _kill_worker(_: Servers, processes: Processes) -> None:
    processes.kill_worker()


def _stop_worker(_: Servers, processes: Processes) -> None:
    """For longer than a lease."""
    worker = processes.worker()
    worker.sigstop()
    time.sleep(_LONGER)
    worker.sigcont()


def _full_memory(servers: Servers, _: Processes) -> None:
    """Until the waiting items are worked off."""
    primary = servers.primary()
    primary.call("CONFIG", "SET", "maxmemory", "1mb")
    eventually_sync(
        lambda: primary.call("LLEN", MAIN) == 0, why="waiting items are worked off in full memory"
    )
    primary.call("CONFIG", "SET", "maxmemory", "0")


def _full_disk(servers: Servers, _: Processes) -> None:
    primary = servers.primary()
    assert isinstance(primary, NotedServer)
    primary.fill_disk()
    time.sleep(_SHORTER)
    primary.free_disk()
    primary.start()  # with `always` it has ended


def _move_clock(milliseconds: int) -> Fault:
    def move(servers: Servers, _: Processes) -> None:
        stats = MAIN.removesuffix("main") + "stats"
        servers.primary().call("EVAL", MOVE, 1, stats, before_slewing(milliseconds), "clock_offset")

    return move


def _fail_over(servers: Servers, _: Processes) -> None:
    servers.fail_over()


def _hand_over(servers: Servers, _: Processes) -> None:
    servers.hand_over()


def _move_slot(servers: Servers, _: Processes) -> None:
    assert isinstance(servers, Clustered)
    servers.move_slot()


FAULTS: Mapping[str, Fault] = {
    "server killed": _kill_server,
    "power failure": _power_failure,
    "server stopped": _stop_server,
    "worker killed": _kill_worker,
    "worker stopped": _stop_worker,
    "memory full": _full_memory,
    "disk full": _full_disk,
    "clock +1 h": _move_clock(_HOUR_MS),
    "clock -1 h": _move_clock(-_HOUR_MS),
    "failover": _fail_over,
    "handover": _hand_over,
    "slot moved": _move_slot,
}
