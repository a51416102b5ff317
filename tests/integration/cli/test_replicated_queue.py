"""A queue that asks for a replica, by the command."""

from collections.abc import Callable
from typing import Any

from claimq import Durability, Policy
from claimq.blocking import connect
from testkit.servers.patient import patient
from testkit.servers.server import Server


def test_an_enqueue_that_no_replica_confirms_ends_with_3(claimq: Callable[..., Any], valkey: Server) -> None:
    with connect(settings=patient(valkey.url)) as store:
        store.queue("q").set_policy(Policy(durability=Durability.REPLICATED))
        answer = claimq("enqueue", "q", "mine", "--redis", valkey.url)
        assert answer.code == 3
        assert "not confirmed in 2000 ms that a replica has it" in answer.err
        assert "start the server" not in answer.err
        assert store.queue("q").length() == 1


def test_doctor_reports_a_queue_whose_durability_the_server_refuses(
    claimq: Callable[..., Any], valkey: Server
) -> None:
    with connect(settings=patient(valkey.url)) as store:
        store.queue("q").set_policy(Policy(durability=Durability.FSYNCED))
        store.queue("q").add_to_index()
    refused = (
        "FsyncedRefused: durability fsynced of queue q is refused, and nothing can be enqueued: valkey 9."
    )
    assert refused in claimq("doctor", "--redis", valkey.url).out
    answer = claimq("enqueue", "q", "mine", "--redis", valkey.url)
    assert answer.code != 0
    assert "durability fsynced is refused: this server" in answer.err
    assert claimq("policy", "q", "appendfsync_always=true", "--redis", valkey.url).code == 0
    assert "FsyncedRefused" not in claimq("doctor", "--redis", valkey.url).out
