"""A server that cannot run the scripts is named at once, although reads of it succeed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from claimq.errors import ScriptsRefused, StoreMisused
from claimq.internals.operations import internals
from testkit.plugin import ServerFactory
from testkit.queues import roles
from testkit.servers.contents import contents
from testkit.servers.patient import open_queue, open_server
from testkit.servers.resp import Answer
from testkit.servers.server import Server

IMITATION = {
    b"HELLO": b"*4\r\n$6\r\nserver\r\n$9\r\nImitation\r\n$7\r\nversion\r\n$3\r\n3.1\r\n",
    b"INFO": b"$25\r\n# Server\r\nuptime:many\r\n\r\n\r\n",
    b"CONFIG": b"*0\r\n",
    b"EVALSHA": b"-ERR user_script:3: attempt to call a nil value (field 'acl_check_cmd')\r\n",
}
NO_TIME = {"rename-command": 'TIME ""'}


async def test_a_server_without_a_command_of_the_scripts_is_named(start_server: ServerFactory) -> None:
    server = start_server("valkey", NO_TIME)
    version = ".".join(map(str, server.version))
    async with open_server(server.url) as store:
        with pytest.raises(
            ScriptsRefused, match=r"^enqueue: the server cannot run claimq's scripts: it does not know"
        ):
            await store.queue("q").enqueue("a")
        named = rf"^the server cannot run claimq's scripts: valkey {version} has no command TIME; remove its rename"
        with pytest.raises(ScriptsRefused, match=named):
            await internals(store.queue("q")).try_scripts()
    assert not contents(server)


async def test_a_server_that_runs_them_has_nothing_written_by_the_trial(server: Server) -> None:
    async with open_queue(server.url) as queue:
        await internals(queue).try_scripts()
    assert server.call("DBSIZE") == 0


@pytest.mark.parametrize("reply", [IMITATION[b"EVALSHA"], b"-ERR something of its own\r\n"])
async def test_a_server_of_another_name_is_named_as_it_names_itself(
    fake: Callable[[Answer], str], reply: bytes
) -> None:
    answers = {**IMITATION, b"EVALSHA": reply}
    url = fake(lambda words: answers.get(words[0].split()[0], b"+OK\r\n"))
    async with open_server(url, retry_for=0.3) as store:
        report = await store.report()
        assert (report.flavour, report.version) == ("imitation", "3.1")
        warnings = {one.code: one.message for one in report.warnings}
        assert "calls itself imitation 3.1" in warnings["OtherServer"]
        with pytest.raises(ScriptsRefused, match=r"cannot run claimq's scripts: imitation 3\.1 refuses them"):
            await internals(store.queue("q")).try_scripts()
        with pytest.raises(StoreMisused, match="does not report used_memory"):
            await store.queue("q").memory_share()


async def test_a_user_of_each_role_may_try_the_scripts(server: Server) -> None:
    for role in roles.ROLES:
        roles.give(server, role, roles.documented(role))
        async with open_queue(roles.url(server, role), roles.QUEUE) as queue:
            await internals(queue).try_scripts()
    assert roles.denied(server) <= {"client|setinfo"}  # of the client library


async def test_a_port_of_another_protocol_is_no_server_that_refuses_scripts(
    fake: Callable[[Answer], str],
) -> None:
    url = fake(lambda _: b"HTTP/1.0 400 Bad Request\r\n\r\n")
    async with open_queue(url) as queue:
        with pytest.raises(StoreMisused) as refused:
            await internals(queue).try_scripts()
    assert not isinstance(refused.value, ScriptsRefused)
