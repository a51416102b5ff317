"""The list of a server's queues is a right of its own, which nothing else needs."""

import pytest

import claimq
from claimq.errors import StoreMisused
from testkit.queues import roles
from testkit.servers.patient import open_blocking_queue, open_queue, open_server
from testkit.servers.server import Server


async def test_the_list_of_queues_is_for_those_who_may_and_nothing_needs_it(server: Server) -> None:
    roles.give(server, "operator", roles.documented("operator"))
    async with open_server(roles.url(server, "operator")) as store:
        assert not await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == []
    server.call("ACL", "SETUSER", "operator", "~cq:queues")
    async with open_server(roles.url(server, "operator")) as store:
        await store.queue(roles.QUEUE).set_policy(claimq.Policy())
        assert await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == [roles.QUEUE]


async def test_a_queue_that_is_deleted_is_listed_again_at_the_next_claim(server: Server) -> None:
    async with open_server(server.url) as store:
        queue = store.queue("q")
        await queue.enqueue("x")
        await queue.claim(wait=0)
        await queue.delete()
        assert await store.queues() == []
        for _ in range(2):
            await queue.enqueue("y")
            await queue.claim(wait=0)
            assert await store.queues() == ["q"]
            server.call("FLUSHALL")


async def test_a_queue_that_is_deleted_is_listed_again_at_the_next_enqueue(server: Server) -> None:
    async with open_server(server.url) as store:
        queue = store.queue("q")
        for _ in range(3):
            await queue.enqueue("x")
            assert await store.queues() == ["q"]
            await queue.delete()
            assert await store.queues() == []
    with open_blocking_queue(server.url) as opened:
        for _ in range(3):
            opened.enqueue("x")
            assert server.call("ZRANGE", "cq:queues", 0, -1) == [b"q"]
            server.call("FLUSHALL")


async def test_an_index_of_another_type_is_no_list_of_queues(server: Server) -> None:
    server.call("SET", "cq:queues", "theirs")
    async with open_server(server.url) as store:
        assert not await store.queue(roles.QUEUE).add_to_index()
        assert await store.queues() == []
    assert server.call("GET", "cq:queues") == b"theirs"


async def test_a_server_that_refuses_the_list_for_another_reason_is_reported(server: Server) -> None:
    """A wrong password is not a list that the user may not write."""
    server.call("ACL", "SETUSER", "ann", "on", ">right", "allcommands", "allkeys")
    async with open_queue(server.url, "gone") as queue:
        assert await queue.add_to_index()
    wrong = server.url.replace("://", "://ann:wrong@", 1)
    async with open_queue(wrong, "gone") as queue:
        with pytest.raises(StoreMisused, match="refuses this user and password"):
            await queue.add_to_index()


async def test_who_may_not_remove_names_still_gets_the_list(server: Server) -> None:
    roles.give(server, "operator", [*roles.documented("operator"), "~cq:queues"])
    async with open_server(roles.url(server, "operator")) as store:
        assert await store.queue(roles.QUEUE).add_to_index()
        server.call("ACL", "SETUSER", "operator", "-zrem")
        assert await store.queues() == []
    assert server.call("ZCARD", "cq:queues") == 1


async def test_a_server_without_a_command_for_the_list_is_reported() -> None:
    with Server("valkey", {"rename-command": 'ZREM ""'}) as server:
        async with open_server(server.url) as store:
            assert await store.queue("gone").add_to_index()
            with pytest.raises(StoreMisused, match="queues"):
                await store.queues()


async def test_a_queue_that_only_programs_use_is_listed(server: Server) -> None:
    async with open_server(server.url) as producer:
        await producer.queue("enqueued").enqueue(b"x")
        await producer.enqueue({"together": [b"x"], "enqueued": [b"x"]})
    async with open_queue(server.url, "claimed") as queue:
        assert not await queue.claim(wait=0)
    with open_blocking_queue(server.url, "blocking") as queue:
        queue.enqueue("x")
    assert server.call("ZRANGE", "cq:queues", 0, -1) == [b"blocking", b"claimed", b"enqueued", b"together"]


async def test_a_process_adds_a_name_once(server: Server) -> None:
    async with open_queue(server.url) as queue:
        await queue.enqueue(b"x")
        assert server.call("ZREM", "cq:queues", "q") == 1
        await queue.enqueue(b"x")
        assert await queue.claim(2, wait=0)
    assert server.call("EXISTS", "cq:queues") == 0


@pytest.mark.parametrize("role", ["producer", "worker"])
async def test_who_may_not_write_the_list_works_without_a_line_in_the_log(server: Server, role: str) -> None:
    roles.give(server, role, roles.documented(role))
    await _produce(server, role)
    assert server.call("EXISTS", "cq:queues") == 0
    assert roles.denied(server) <= {"client|setinfo"}


async def test_who_may_only_write_the_list_adds_a_name_and_reads_none(server: Server) -> None:
    server.call("ZADD", "cq:queues", 0, "theirs")
    roles.give(server, "producer", [*roles.documented("producer"), "%W~cq:queues"])
    await _produce(server, "producer")
    assert server.call("ZRANGE", "cq:queues", 0, -1) == [roles.QUEUE.encode(), b"theirs"]
    assert roles.denied(server) <= {"client|setinfo"}
    async with open_server(roles.url(server, "producer")) as store:
        assert await store.queues() == []


async def _produce(server: Server, role: str) -> None:
    server.call("ACL", "LOG", "RESET")
    async with open_server(roles.url(server, role)) as store:
        await store.queue(roles.QUEUE).enqueue(b"x")
        if role == "worker":
            assert await store.queue(roles.QUEUE).claim(wait=0)
