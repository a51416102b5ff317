"""A status does not show a tenant what answers at an address that only the operator may reach."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from claimq_control.grants import NO_GRANTS, Grants
from claimq_kubernetes.port import SECRETS
from claimq_operator.reconcile.context import Context
from testkit.faults.other_ports import urls_of_other_ports
from testkit.kubernetes.operator_in_memory import MemoryApi, add_queue, conditions, operator, queue_body
from testkit.plugin import ServerFactory
from testkit.servers.server import Server
from testkit.waiting import eventually

ALLOWED = Grants((("media", "127.0.0.1"),))


async def add_queue_by_secret(api: MemoryApi, context: Context, server: Server, url: str) -> None:
    """A queue that has this URL in a Secret."""
    data = {"url": base64.b64encode(url.encode()).decode()}
    await api.create(SECRETS, {"metadata": {"name": "redis", "namespace": "media"}, "data": data})
    body: Any = queue_body(server)
    body["spec"]["redis"] = {"secretRef": {"name": "redis"}}
    await add_queue(context, api, body)


async def reported(api: MemoryApi) -> tuple[str, str]:
    """The reason and the message of RedisReachable, once it is False."""
    await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("False"))
    every = api.objects["ReliableQueue", "thumbs"]["status"]["conditions"]
    (condition,) = (one for one in every if one["type"] == "RedisReachable")
    return condition["reason"], condition["message"]


async def report_on(server: Server, url: str, tmp_path: Path, hosts: Grants = NO_GRANTS) -> tuple[str, str]:
    """The same of a new queue with this URL."""
    api = MemoryApi()
    tmp_path.mkdir(exist_ok=True)
    async with operator(api, tmp_path, hosts) as context:
        await add_queue_by_secret(api, context, server, url)
        return await reported(api)


async def test_ports_of_all_kinds_get_the_same_words(
    start_server: ServerFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(tcp=True)
    with urls_of_other_ports(start_server) as urls:
        reports = set(
            await asyncio.gather(
                *(report_on(server, url, tmp_path / str(number)) for number, url in enumerate(urls))
            )
        )
    assert len(reports) == 1
    reason, message = reports.pop()
    assert reason == "Unreachable"
    assert "`claimq doctor thumbs -n media` shows which" in message
    assert "requires a password" in caplog.text
    assert "the name of the host cannot be resolved" in caplog.text


async def test_a_server_that_the_platform_allows_is_described(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    server = start_server(tcp=True)
    server.call("CONFIG", "SET", "requirepass", "another")
    reason, message = await report_on(server, f"redis://127.0.0.1:{server.port}/0", tmp_path, ALLOWED)
    assert reason == "Misused"
    assert "the server requires a password; give one" in message


async def test_what_a_server_refuses_to_a_user_whom_it_accepts_is_described(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    server = start_server(tcp=True)
    server.call("ACL", "SETUSER", "reader", "on", ">right", "+@all")
    reason, message = await report_on(server, f"redis://reader:right@127.0.0.1:{server.port}/0", tmp_path)
    assert reason == "Misused"
    assert "docs/acl.md" in message


async def test_a_server_whose_scripts_have_run_is_not_described_later(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    """Its name may lead to another port by then: a Service can be changed at any time."""
    api, server = MemoryApi(), start_server(tcp=True)
    async with operator(api, tmp_path) as context:
        await add_queue_by_secret(api, context, server, f"redis://127.0.0.1:{server.port}/0")
        await eventually(lambda: conditions(api).get("RedisReachable", "").startswith("True"))
        server.stop()
        reason, message = await reported(api)
    assert reason == "Unreachable"
    assert "refused" not in message.replace("it refuses TLS", "")
    assert "`claimq doctor thumbs -n media`" in message
