"""What commands advise about servers that refuse a call: what the server said, not only that it did not serve."""

import socket
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from claimq.blocking import connect
from testkit.plugin import Claimq, ServerFactory
from testkit.servers.patient import patient
from testkit.servers.sentinel import Sentinel
from testkit.servers.server import Server
from testkit.waiting import eventually_sync


def problems(answer: Any) -> list[dict[str, str]]:
    return [one for one in answer.json["checks"] if one["state"] == "problem"]


@contextmanager
def all_connections_of(server: Server) -> Generator[None]:
    """Holds more connections than the server has."""
    with ExitStack() as held:
        for _ in range(int(server.options["maxclients"]) + 1):
            held.enter_context(socket.socket(socket.AF_UNIX)).connect(str(server.unix_path))
        yield


def test_a_failed_snapshot_is_reported_with_what_it_stops(
    claimq: Claimq, start_server: ServerFactory
) -> None:
    server = start_server(options={"save": "3600 1"})
    assert problems(claimq("--redis", server.url, "doctor", "-o", "json")) == []
    (server.dir / "dump.rdb").mkdir()
    server.call("SET", "x", "1")
    server.call("BGSAVE")
    eventually_sync(lambda: "rdb_last_bgsave_status:err" in str(server.call("INFO", "persistence")))
    with connect(settings=patient(server.url)) as store:
        assert "SnapshotFailing" in {warning.code for warning in store.report().warnings}
    (found,) = problems(claimq("--redis", server.url, "doctor", "-o", "json"))
    assert "a snapshot or its append-only file failed" in found["message"]
    assert "start the server" not in found["fix"]


def test_a_server_at_its_maxclients_is_not_to_be_started(claimq: Claimq, start_server: ServerFactory) -> None:
    server = start_server(options={"maxclients": "5"})
    with all_connections_of(server):
        for command in (["enqueue", "q", "a"], ["queues"]):
            answer = claimq("--redis", server.url, *command)
            assert (answer.code, "maxclients" in answer.err) == (3, True), answer


@pytest.mark.parametrize("command", ["queues", "status"])
def test_a_wrong_password_is_no_server_without_queues(command: str, claimq: Claimq, valkey: Server) -> None:
    answer = claimq("--redis", valkey.url.replace("://", "://stranger:wrong@"), command)
    assert (answer.code, answer.out) == (4, "")
    assert "the server refuses this user and password; correct them" in answer.err


@pytest.mark.parametrize("is_tls", [True, False])
def test_tls_on_one_side_only_is_named_as_a_cause(
    is_tls: bool, claimq: Claimq, start_server: ServerFactory
) -> None:
    server = start_server("redis7", tcp=not is_tls, tls=is_tls)
    place = server.tcp_url.partition("://")[2]
    url = f"redis://{place}" if is_tls else f"rediss://{place}"
    answer = claimq("--redis", url, "enqueue", "q", "a")
    assert answer.code == 3
    assert ("a port with TLS may be at this address" if is_tls else "its port is without TLS") in answer.err


@pytest.mark.parametrize("command", ["EVALSHA", "TIME", "ZMSCORE"])
def test_a_renamed_command_of_the_scripts_is_named(
    command: str, claimq: Claimq, start_server: ServerFactory
) -> None:
    server = start_server(options={"rename-command": f'{command} ""'})
    version = ".".join(map(str, server.version))
    named = f"the server cannot run claimq's scripts: valkey {version} has no command {command}; remove its rename"
    found = problems(claimq("--redis", server.url, "doctor", "-o", "json"))
    assert found[0]["message"].startswith(named)


def test_a_user_of_one_queue_is_not_warned_of_scripts_on_others(claimq: Claimq, valkey: Server) -> None:
    valkey.call("ACL", "SETUSER", "limited", "on", ">p", "resetkeys", "~cq:{mine}:*", "+@all")
    url = valkey.url.replace("unix://", "unix://limited:p@")
    assert claimq("--redis", url, "enqueue", "mine", "a").code == 0
    answer = claimq("--redis", url, "doctor", "-o", "json")
    assert problems(answer) == []
    assert "NoAppendOnly" in answer.out


def test_a_check_that_fails_for_another_reason_than_a_right_is_a_problem(on: Claimq, valkey: Server) -> None:
    on("enqueue", "q", "a")
    valkey.call("DEL", "cq:{q}:stats")
    valkey.call("SET", "cq:{q}:stats", "of another program")
    answer = on("doctor", "q", "-o", "json")
    assert answer.code == 1
    assert {one["check"] for one in problems(answer)} == {
        "scripts on the server", "clock of the server", "queue q",
    }  # fmt: skip
    for one in problems(answer):
        assert "cq:{q}:stats" in one["message"]
        assert "permissions" not in one["fix"]


def test_a_failover_to_a_server_that_cannot_run_the_scripts_is_reported(
    claimq: Claimq, sentinel: Sentinel
) -> None:
    """A replica follows without running scripts, so the fault shows when it is the primary."""
    assert claimq("--redis", sentinel.url, "enqueue", "q", "a").code == 0
    for replica in sentinel.servers[1:]:
        replica.kill9()
        replica.options["rename-command"] = 'TIME ""'
        replica.start()
    replicas = sentinel.servers[1:]
    eventually_sync(lambda: all("b'connected'" in str(one.call("ROLE")) for one in replicas))
    assert problems(claimq("--redis", sentinel.url, "doctor", "-o", "json")) == []
    sentinel.fail_over()
    refused = "the server cannot run claimq's scripts: valkey "
    monitored = claimq("--redis", sentinel.url, "check", "q")
    assert (monitored.code, monitored.out.startswith(f"CRITICAL - {refused}")) == (2, True), monitored
    found = problems(claimq("--redis", sentinel.url, "doctor", "-o", "json"))
    assert found[0]["message"].startswith(refused)
