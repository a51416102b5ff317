"""`claimq up` on a server where another object owns the queue."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import claimq as library
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.policy import Policy
from claimq_local.ownership import local_owner
from testkit.plugin import StartUp
from testkit.servers.patient import open_server
from testkit.servers.server import Server

SPEC: dict[str, object] = {"worker": {"command": ["true"]}, "requeueLimit": 2, "scaling": {"maxReplicas": 1}}
UNTIL_EMPTY = "--until-empty"


@pytest.fixture
def owned(valkey: Server) -> Owner:
    """The queue `trial`, owned by a ReliableQueue, with its policy."""

    async def own(queue: library.ReliableQueue) -> Owner:
        await queue.set_policy(Policy(requeue_limit=7))
        return await internals(queue).own(Owner("cluster-a", "media", "thumbs", "uid-1"))

    found: Owner = on_trial(valkey, own)
    return found


def on_trial(valkey: Server, work: Callable[[library.ReliableQueue], Any]) -> Any:
    async def connected() -> Any:
        async with open_server(valkey.url) as server:
            return await work(server.queue("trial"))

    return asyncio.run(connected())


def test_a_queue_of_a_reliable_queue_is_refused_and_unchanged(
    start_up: StartUp, valkey: Server, owned: Owner
) -> None:
    up = start_up(SPEC, "--redis", valkey.url, UNTIL_EMPTY, wait=False)
    assert up.process.wait() == 4
    assert "the queue trial is owned by the ReliableQueue media/thumbs" in up.text
    assert f"set another spec.queueName, or take it over with --take-over {owned}" in up.text
    assert on_trial(valkey, lambda queue: queue.policy()).requeue_limit == 7
    assert on_trial(valkey, lambda queue: internals(queue).owner()) == owned


def test_taking_over_is_explicit_and_holds_for_the_next_start(
    start_up: StartUp, valkey: Server, owned: Owner, tmp_path: Path
) -> None:
    for arguments in (("--take-over", str(owned)), ()):
        up = start_up(SPEC, "--redis", valkey.url, UNTIL_EMPTY, *arguments, wait=False)
        assert up.process.wait() == 0, up.text
    assert on_trial(valkey, lambda queue: queue.policy()).requeue_limit == 2
    now = on_trial(valkey, lambda queue: internals(queue).owner())
    assert now.words() == local_owner("trial", tmp_path).words()
    assert now.number == 2


def test_an_old_owner_does_not_take_over(start_up: StartUp, valkey: Server, owned: Owner) -> None:
    on_trial(
        valkey,
        lambda queue: internals(queue).own(Owner("cluster-b", "x", "y", "uid-2"), take_over_from=owned),
    )
    up = start_up(SPEC, "--redis", valkey.url, UNTIL_EMPTY, "--take-over", str(owned), wait=False)
    assert up.process.wait() == 4
    assert "cluster-b/x/y/uid-2/2" in up.text


def test_a_queue_without_an_owner_stays_without_one(start_up: StartUp, valkey: Server) -> None:
    up = start_up(SPEC, "--redis", valkey.url, UNTIL_EMPTY, wait=False)
    assert up.process.wait() == 0, up.text
    assert on_trial(valkey, lambda queue: internals(queue).owner()) is None
