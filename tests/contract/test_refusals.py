"""Every script checks everything before it writes: a call that is refused has changed nothing, to the last byte.

Redis keeps what a script wrote before it failed. So for each script, and each key that it may meet, the key is
replaced by one of another type: the call is then refused with nothing changed and the key named, or it does not need
that key and succeeds.
"""

from __future__ import annotations

import pytest

import claimq
from claimq import ReliableQueue, StoreMisused
from testkit.queues.scenario_world import CANDIDATES, World
from testkit.queues.scenarios import SCENARIOS
from testkit.servers.contents import changes, contents
from testkit.servers.server import Server


@pytest.fixture
def world(server: Server, store: claimq.Server, queue: ReliableQueue, other_worker: ReliableQueue) -> World:
    return World(server, store, queue, other_worker, store.queue("other", worker="w1"))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_key_of_another_type_refuses_the_call_and_nothing_has_changed(
    world: World, name: str
) -> None:
    prepare, needed = SCENARIOS[name]
    refused: set[str] = set()
    wrong: dict[str, object] = {}
    for part in CANDIDATES:
        await world.start_again()
        call = await prepare(world)
        world.put_in_the_way(part)
        before = contents(world.server)
        try:
            await call()
        except StoreMisused as error:
            refused.add(part)
            if difference := changes(before, contents(world.server)):
                wrong[part] = difference
            elif world.key(part) not in str(error):
                wrong[part] = f"the message does not name the key: {error}"
        else:
            after = contents(world.server)
            assert (
                name in {"flush", "flush_of_main", "delete"}
                or after[world.key(part)] == before[world.key(part)]
            )
    assert wrong == {}
    assert sorted(refused) == sorted(needed)


def test_every_script_that_writes_is_held_to_this() -> None:
    """A new script needs a scenario: this is the list of those that have one."""
    from importlib.resources import files

    from claimq.redis_store.scripts import script

    names = [path.name.removesuffix(".lua") for path in (files("claimq.redis_store") / "lua").iterdir()]
    makes_calls_only = {"trial"}  # it writes nothing, but may run only where scripts that write do
    writing = {name for name in names if name != "lib" and script(name).writes} - makes_calls_only
    assert writing == {
        "announce", "claim", "claim_item", "configure", "delete", "done", "done_claim", "done_enqueue", "enqueue",
        "explain", "flush", "flush_client", "give_back", "own", "pause",
        "reap", "record_action", "release_worker", "recount", "remove_failed",
        "renew", "repair", "requeue_failed", "withdraw",
    }  # fmt: skip
