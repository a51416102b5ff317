"""A call that is refused for want of a permission has changed nothing, to the last byte.

Redis keeps what a script wrote before it was refused a command. So each call is made by a user of each documented role,
whole and without each one of its permissions: it succeeds, or nothing has changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from claimq import StoreMisused
from testkit.queues import roles
from testkit.queues.scenario_world import World
from testkit.queues.scenarios import SCENARIOS
from testkit.servers.contents import Contents, changes, contents
from testkit.servers.patient import open_server
from testkit.servers.server import Server

USER = "limited"
OTHER_KEYS = "~cq:{other}:*"


def _rights() -> Iterator[tuple[str, list[str]]]:
    """Each documented role, and each without one of its permissions."""
    for role in roles.ROLES:
        whole = roles.documented(role)
        yield role, whole
        for one in whole:
            if one not in {"+eval", "+evalsha"}:  # without them no script runs at all
                yield f"{role} without {one}", [right for right in whole if right != one]


@pytest.fixture
async def world(server: Server) -> AsyncIterator[World]:
    roles.give(server, USER, ["+@all"], keys="~cq:*")
    async with open_server(roles.url(server, USER), retry_for=2.0) as store:
        first, second = store.queue("q", worker="w1"), store.queue("q", worker="w2")
        yield World(server, store, first, second, store.queue("other", worker="w1"))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_call_without_a_permission_changes_nothing_at_all(world: World, name: str) -> None:
    prepare, _ = SCENARIOS[name]
    server, allowed, refused = world.server, list[str](), list[str]()
    wrong: dict[str, object] = {}
    call, before = None, Contents()
    for user, rights in _rights():
        if call is None:
            server.call("ACL", "SETUSER", USER, "+@all")
            await world.start_again()
            call = await prepare(world)
            before = contents(server)
        server.call("ACL", "SETUSER", USER, "-@all", *rights)
        try:
            await call()
        except StoreMisused as error:
            refused.append(user)
            difference = changes(before, contents(server))
            if "may not do this" in str(error) and not difference:
                continue
            wrong[user] = str(error), difference
        else:
            allowed.append(user)
        call = None
    assert wrong == {}
    assert "operator" in allowed
    assert any(user.startswith("operator without") for user in refused)


@pytest.mark.parametrize("name", ["enqueue_to_two_queues", "done_with_followers"])
async def test_a_second_queue_that_a_user_may_not_write_refuses_the_whole_call(
    world: World, name: str
) -> None:
    call = await SCENARIOS[name][0](world)
    before = contents(world.server)
    for keys in (
        ["~cq:{q}:*"],
        ["~cq:{q}:*", "%R~cq:{other}:*"],
        ["~cq:{q}:*", "~cq:{other}:main"],
        ["~cq:{q}:*", "~cq:{other}:m*", "~cq:{other}:stats"],
    ):
        world.server.call("ACL", "SETUSER", USER, "resetkeys", *keys)
        with pytest.raises(StoreMisused, match="may not do this"):
            await call()
        assert contents(world.server) == before
    world.server.call("ACL", "SETUSER", USER, OTHER_KEYS)
    await call()


async def test_a_claim_asks_for_what_writes_items_when_one_waits(world: World) -> None:
    rights = [right for right in roles.documented("worker") if right != "+hdel"]
    await world.first.claim(1, wait=0)
    world.server.call("ACL", "SETUSER", USER, "-@all", *rights)
    assert await world.first.claim(1, wait=0) == []
    world.server.call("ACL", "SETUSER", USER, "+@all")
    await world.first.enqueue("a")
    world.server.call("ACL", "SETUSER", USER, "-@all", *rights)
    before = contents(world.server)
    with pytest.raises(StoreMisused, match="HDEL"):
        await world.first.claim(1, wait=0)
    assert contents(world.server) == before
