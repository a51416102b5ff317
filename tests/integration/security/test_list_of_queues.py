"""The list of a server's queues is a right of its own, which nothing else needs."""

import claimq
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
