"""The list of a server's queues is a right of its own, which nothing else needs."""

import pytest

import claimq
from claimq.errors import StoreMisused
from testkit import roles
from testkit.patient import patient
from testkit.server import Server


async def test_the_list_of_queues_is_for_those_who_may_and_nothing_needs_it(server: Server) -> None:
    roles.give(server, "operator", roles.documented("operator"))
    async with claimq.connect(settings=patient(roles.url(server, "operator"))) as store:
        assert not await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == []
    server.call("ACL", "SETUSER", "operator", "~cq:queues")
    async with claimq.connect(settings=patient(roles.url(server, "operator"))) as store:
        await store.queue(roles.QUEUE).set_policy(claimq.Policy())
        assert await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == [roles.QUEUE]


async def test_an_index_of_another_type_is_no_list_of_queues(server: Server) -> None:
    server.call("SET", "cq:queues", "theirs")
    async with claimq.connect(settings=patient(server.url)) as store:
        assert not await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == []
    assert server.call("GET", "cq:queues") == b"theirs"


async def test_a_server_that_refuses_the_list_for_another_reason_is_reported(server: Server) -> None:
    """A wrong password is not a list that the user may not write."""
    server.call("ACL", "SETUSER", "ann", "on", ">right", "allcommands", "allkeys")
    async with claimq.connect(settings=patient(server.url)) as store:
        assert await store.queue("gone").add_to_index()
    wrong = server.url.replace("://", "://ann:wrong@", 1)
    async with claimq.connect(settings=patient(wrong)) as store:
        with pytest.raises(StoreMisused, match="refuses this user and password"):
            await store.queue("gone").add_to_index()


async def test_who_may_not_remove_names_still_gets_the_list(server: Server) -> None:
    roles.give(server, "operator", [*roles.documented("operator"), "~cq:queues"])
    async with claimq.connect(settings=patient(roles.url(server, "operator"))) as store:
        assert await store.queue(roles.QUEUE).add_to_index()
        server.call("ACL", "SETUSER", "operator", "-zrem")
        assert await store.queues() == []
    assert server.call("ZCARD", "cq:queues") == 1


async def test_a_server_without_a_command_for_the_list_is_reported() -> None:
    with Server("valkey", {"rename-command": 'ZREM ""'}) as server:
        async with claimq.connect(settings=patient(server.url)) as store:
            assert await store.queue("gone").add_to_index()
            with pytest.raises(StoreMisused, match="queues"):
                await store.queues()
