"""The kit's servers: what the other tests take for granted about them."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from testkit.cluster import RedisCluster
from testkit.plugin import ServerFactory
from testkit.processes import Process
from testkit.resp import ReplyError
from testkit.sentinel import Sentinel
from testkit.server import DURABLE, Server
from testkit.waiting import PATIENCE, eventually_sync


def test_an_emptied_server_has_no_keys_and_no_scripts_left(server: Server) -> None:
    assert server.call("DBSIZE") == 0
    server.call("SET", "left", "behind")
    script = server.call("SCRIPT", "LOAD", "return 1")
    assert isinstance(script, bytes)
    server.empty()
    assert server.call("DBSIZE") == 0
    assert server.call("SCRIPT", "EXISTS", script) == [0]


def test_a_server_whose_settings_were_changed_restarts(valkey: Server) -> None:
    first = valkey.process
    valkey.call("CONFIG", "SET", "maxmemory", "5mb")
    valkey.empty()
    assert valkey.process is not first
    assert valkey.call("CONFIG", "GET", "maxmemory") == [b"maxmemory", b"0"]


def test_what_a_durable_server_acknowledged_survives_sigkill(start_server: ServerFactory) -> None:
    durable = start_server(options=DURABLE)
    durable.call("SET", "key", "value")
    durable.kill9()
    assert not durable.is_running
    durable.start()
    assert durable.call("GET", "key") == b"value"


def test_a_server_keeps_its_port_over_a_restart(start_server: ServerFactory) -> None:
    moved = start_server(tcp=True)
    url = moved.tcp_url
    moved.restart()
    client = redis.Redis.from_url(url)
    assert client.ping()
    client.close()


def test_a_paused_server_is_silent_and_goes_on_later(start_server: ServerFactory) -> None:
    paused = start_server()
    paused.sigstop()
    with pytest.raises(TimeoutError):
        paused.call("PING", timeout=0.2)
    paused.sigcont()
    assert paused.call("PING") == b"PONG"


def test_a_server_that_cannot_start_shows_its_log(start_server: ServerFactory) -> None:
    with pytest.raises(RuntimeError, match="no-such-option"):
        start_server(options={"no-such-option": "1"})


def test_a_server_speaks_tls_alone_on_its_port(start_server: ServerFactory) -> None:
    private = start_server("redis7", tls=True)
    assert private.certificates is not None
    client = redis.Redis.from_url(private.tcp_url, ssl_ca_certs=str(private.certificates.ca_file))
    assert client.ping()
    client.close()
    plain = redis.Redis(port=private.port, socket_timeout=PATIENCE, retry=Retry(NoBackoff(), 0))
    with pytest.raises(redis.ConnectionError):
        plain.ping()
    plain.close()


def test_a_slot_of_the_cluster_moves_with_its_keys(redis_cluster: RedisCluster) -> None:
    old = redis_cluster.owner("{q}:main")
    old.call("SET", "{q}:main", "x")
    new = next(node for node in redis_cluster.nodes if node is not old)
    redis_cluster.move_slot("{q}:main", new)
    assert redis_cluster.owner("{q}:main") is new
    assert new.call("GET", "{q}:main") == b"x"
    with pytest.raises(ReplyError, match="MOVED"):
        old.call("GET", "{q}:main")


def test_sentinels_make_a_replica_the_primary_when_it_is_killed(sentinel: Sentinel) -> None:
    old = sentinel.primary()
    client = redis.Redis(unix_socket_path=str(old.unix_path))
    client.set("key", "value")
    assert client.wait(2, round(PATIENCE * 1000)) == 2
    client.close()
    new = sentinel.fail_over()
    assert new is not old
    assert new.call("GET", "key") == b"value"


def test_a_demoted_primary_refuses_writes(sentinel: Sentinel) -> None:
    old = sentinel.primary()
    assert sentinel.hand_over() is not old
    with pytest.raises(ReplyError, match="READONLY"):
        old.call("SET", "key", "value")


def test_a_process_dies_with_the_one_that_started_it_also_by_sigkill(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = (
        "import sys, time; from pathlib import Path; from testkit.processes import Process\n"
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
