"""The kit's servers: what the other tests take for granted about them."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from claimq.redis_store.scripts import script
from testkit.plugin import ServerFactory
from testkit.programs.processes import Process
from testkit.servers.cluster import RedisCluster
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


def test_an_emptied_server_has_no_keys_and_knows_the_scripts(server: Server) -> None:
    assert server.call("DBSIZE") == 0
    server.call("SET", "left", "behind")
    server.call("SCRIPT", "FLUSH")
    server.empty()
    assert server.call("DBSIZE") == 0
    assert server.call("SCRIPT", "EXISTS", script("claim").sha) == [1]


def test_only_a_server_whose_settings_were_changed_restarts(server: Server) -> None:
    first = server.process
    server.call("CONFIG", "SET", "maxmemory", "5mb")
    server.empty()
    second = server.process
    assert second is not first
    assert server.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"0"]
    server.empty()
    assert server.process is second


def test_users_that_a_test_added_are_removed_without_a_restart(server: Server) -> None:
    first = server.process
    server.call("ACL", "SETUSER", "added", "on", "nopass")
    server.empty()
    assert server.call("ACL", "USERS") == [b"default"]
    assert server.process is first


def test_a_server_that_cannot_start_shows_its_log(start_server: ServerFactory) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        start_server(options={"no-such-option": "1"})


def test_a_process_dies_with_the_one_that_started_it_also_by_sigkill(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = (
        "import sys, time; from pathlib import Path; from testkit.programs.processes import Process\n"
        f"Path({str(note)!r}).write_text(str(Process(['sleep', '600']).pid)); time.sleep(600)"
    )
    support = str(Path(__file__).parents[2] / "support")
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": support})
    child = int(eventually_sync(lambda: note.exists() and note.read_text(), why="the child is started"))
    eventually_sync(lambda: _runs(child, "sleep"), why="the child has become what it is to be")
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    eventually_sync(lambda: not _is_alive(child), why="the child is gone")


def test_a_process_outlives_the_thread_that_asked_for_it() -> None:
    started: list[Process] = []

    def start() -> None:
        started.append(Process(["sleep", "600"]))
        eventually_sync(lambda: _runs(started[0].pid, "sleep"))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    with started[0] as process, pytest.raises(TimeoutError):
        process.wait(0.2)


def _runs(pid: int, program: str) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().startswith(program.encode() + b"\0")


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("flavour", ["valkey", "redis7"])
def test_a_port_that_was_taken_in_between_is_replaced_by_another(flavour: str) -> None:
    server = Server(flavour, tcp=True)
    wanted = server.port
    with socket.create_server(("127.0.0.1", wanted)):
        try:
            server.start()
            assert server.port != wanted
            assert server.call("PING") == b"PONG"
        finally:
            server.close()


@pytest.mark.parametrize("taken", ["a sentinel's", "the primary's"])
def test_a_group_behind_sentinel_avoids_a_port_that_was_taken(taken: str) -> None:
    group = Sentinel()
    port = group.sentinels[1].port if taken == "a sentinel's" else group.servers[0].port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with group:
            assert group.primary() is group.servers[0]
            assert port not in {one.port for one in (*group.sentinels, *group.servers)}


def test_a_node_of_a_cluster_avoids_a_port_of_the_cluster_bus_that_was_taken() -> None:
    cluster = RedisCluster()
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(cluster.nodes[0].options["cluster-port"])))
        other.listen()
        with cluster:
            assert cluster.nodes[0].call("CLUSTER", "INFO")
