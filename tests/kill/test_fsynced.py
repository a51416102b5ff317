"""`durability: fsynced`: refused where WAITAOF can precede the fsync, and what it confirms survives a power loss."""

import re
from contextlib import suppress

import pytest

from claimq import NotReplicated, Policy, StoreMisused
from claimq.blocking import BlockingQueue
from testkit.servers.fsyncs import NotedFactory, NotedServer
from testkit.servers.patient import open_blocking_queue
from testkit.servers.resp import Connection
from testkit.servers.server import DURABLE
from testkit.waiting import PATIENCE, eventually_sync

EVERY_SECOND = {"appendonly": "yes", "appendfsync": "everysec"}
FSYNCED = Policy(durability="fsynced", appendfsync_always=True)


def early_confirmations(server: NotedServer, tries: int) -> int:
    """How many of these writes WAITAOF confirms before an fsync has covered them."""
    connection, early = Connection(server.unix_path, 2 * PATIENCE), 0
    for number in range(tries):
        connection.call("SET", "written", f"<{number}>")
        assert connection.call("WAITAOF", 1, 0, round(PATIENCE * 1000)) == [1, 0]
        early += not server.has_stored(f"<{number}>".encode())
    connection.close()
    return early


def pair(start_noted: NotedFactory) -> tuple[NotedServer, NotedServer]:
    """A primary and its replica, which both store always."""
    primary = start_noted("valkey", {"repl-diskless-sync-delay": "0", **DURABLE}, tcp=True)
    replica = start_noted("valkey", {"replicaof": f"127.0.0.1 {primary.port}", **DURABLE}, tcp=True)
    return primary, replica


def is_confirmed(queue: BlockingQueue, text: str) -> bool:
    with suppress(NotReplicated):
        queue.enqueue(text, id=text)
        return True
    return False


@pytest.mark.parametrize("flavour", ["valkey", "redis8"])
def test_fsynced_is_refused_where_a_confirmation_can_precede_the_fsync(
    start_noted: NotedFactory, flavour: str
) -> None:
    server = start_noted(flavour, EVERY_SECOND, pause_ms=20)
    early = early_confirmations(server, 15)
    with open_blocking_queue(server.url) as queue:
        queue.set_policy(Policy(durability="fsynced"))
        refusal = None
        try:
            is_confirmed(queue, "first")
        except StoreMisused as error:
            refusal = str(error)
        assert refusal or early == 0
        if refusal:
            assert re.search(
                r"^enqueue: durability fsynced is refused: .* can confirm WAITAOF before its fsync; "
                r"set appendfsync always .*appendfsync_always",
                refusal,
            )
            assert queue.length() == 0


def test_no_confirmation_precedes_the_fsync_where_the_server_stores_always(start_noted: NotedFactory) -> None:
    assert early_confirmations(start_noted("valkey", DURABLE, pause_ms=5), 30) == 0


def test_what_a_fsynced_enqueue_confirms_is_on_both_disks(start_noted: NotedFactory) -> None:
    primary, replica = pair(start_noted)
    with open_blocking_queue(primary.url) as queue:
        queue.set_policy(FSYNCED)
        eventually_sync(lambda: is_confirmed(queue, "first"), why="the replica confirms")
        for text in ("<second>", "<third>", "<fourth>"):  # a replica reports its disk once a second
            if is_confirmed(queue, text):
                assert primary.has_stored(text.encode())
                assert replica.has_stored(text.encode())


def test_a_power_loss_of_both_servers_takes_no_fsynced_item(start_noted: NotedFactory) -> None:
    servers = pair(start_noted)
    with open_blocking_queue(servers[0].url) as queue:
        queue.set_policy(FSYNCED)
        eventually_sync(lambda: is_confirmed(queue, "first"), why="the replica confirms")
        confirmed = list[str]()
        for begin in (0, 100, 200):
            with suppress(NotReplicated):
                confirmed += queue.enqueue_many(map(str, range(begin, begin + 100))).ids
    for server in servers:
        server.lose_power()
    for server in servers:
        server.options.pop("replicaof", None)
        server.start()
        with open_blocking_queue(server.url) as opened:
            assert {*confirmed} <= {item.id for item in opened.peek(400)}
