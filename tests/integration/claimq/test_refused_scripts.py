"""A server that cannot run the scripts is named at once, although reads of it succeed."""

from __future__ import annotations

import pytest

import claimq
from claimq.errors import ScriptsRefused
from claimq.queue.internals import internals
from testkit.contents import contents
from testkit.patient import patient
from testkit.plugin import ServerFactory
from testkit.server import Server

NO_TIME = {"rename-command": 'TIME ""'}


async def test_a_server_without_a_command_of_the_scripts_is_named(start_server: ServerFactory) -> None:
    server = start_server("valkey", NO_TIME)
    version = ".".join(map(str, server.version))
    async with claimq.connect(settings=patient(server.url)) as store:
        with pytest.raises(
            ScriptsRefused, match=r"^enqueue: the server cannot run claimq's scripts: it does not know"
        ):
            await store.queue("q").enqueue("a")
        report = await store.report()
        named = (
            f"the server cannot run claimq's scripts: valkey {version} has no command TIME; remove its rename"
        )
        assert [one.message.startswith(named) for one in report.warnings if one.code == "ScriptsRefused"] == [
            True
        ]
        with pytest.raises(ScriptsRefused, match="has no command TIME"):
            await internals(store.queue("q")).try_scripts()
    assert not contents(server)


async def test_a_server_that_runs_them_has_nothing_written_by_the_trial(server: Server) -> None:
    async with claimq.connect(settings=patient(server.url)) as store:
        await internals(store.queue("q")).try_scripts()
        assert "ScriptsRefused" not in [one.code for one in (await store.report()).warnings]
    assert server.call("DBSIZE") == 0


async def test_a_user_of_one_queue_is_not_warned_of_what_it_may_not_try(server: Server) -> None:
    server.call("ACL", "SETUSER", "limited", "on", ">p", "resetkeys", "~cq:{mine}:*", "+@all")
    async with claimq.connect(settings=patient(server.url.replace("unix://", "unix://limited:p@"))) as store:
        await internals(store.queue("mine")).try_scripts()
        assert not {"ScriptsRefused", "WritesRefused"} & {one.code for one in (await store.report()).warnings}
