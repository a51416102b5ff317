"""The page of a cluster does not show a tenant what answers at an address that only its pod may reach."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message

import claimq
from claimq.errors import ClaimqError
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq_web.queues.cluster_queues import ClusterQueues
from claimq_web.queues.queues import ServerQueues
from claimq_web.users.access import SameForAll
from claimq_web.users.login import Logins, by_tokens
from claimq_web.website import Site
from testkit.faults.other_ports import urls_of_other_ports
from testkit.kubernetes.operator_in_memory import MemoryApi, queue_body
from testkit.plugin import ServerFactory
from testkit.servers.patient import open_queue
from testkit.servers.server import Server
from testkit.waiting import eventually

TEXT = (
    "no server answers there, or it refuses TLS or the user and password, or it is no Redis or Valkey server"
)
TOKEN = "a" * 20
FORM, JSON = "application/x-www-form-urlencoded", "application/json"
API = "/api/v1/queues/media.thumbs"
REQUESTS = [
    ("/", "", ""),
    ("/queues/media.thumbs", "", ""),
    ("/queues/media.thumbs/failed", "", ""),
    (f"{API}/status", "", ""),
    (API, FORM, "action=pause"),
    (f"{API}/item", FORM, "action=requeue&id=a"),
    (f"{API}/failed", FORM, "action=remove"),
    (f"{API}/enqueue", JSON, '{"items": [{"payload": "new"}]}'),
]


async def answer(app: ASGIApp, path: str, kind: str = "", body: str = "") -> tuple[int, str]:
    """The status and the text of the answer to a request with a token: a POST if it has a body."""
    sent: list[Message] = []
    headers = {"host": "127.0.0.1", "authorization": f"Bearer {TOKEN}"}
    if body:
        headers |= {"content-type": kind, "content-length": str(len(body))}
    scope: Any = {
        "type": "http", "method": "POST" if body else "GET", "path": path, "root_path": "", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip

    async def receive() -> Message:
        return {"type": "http.request", "body": body.encode()}

    async def note(message: Message) -> None:
        sent.append(message)

    await app({**scope, "client": ("127.0.0.1", 1), "state": {}}, receive, note)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:]).decode()


def app_of(site: Site) -> ASGIApp:
    return site.app("127.0.0.1")


@asynccontextmanager
async def site_of(server: Server, url: str, directory: Path) -> AsyncGenerator[Site]:
    """The page of a cluster with the queue media/thumbs, whose Secret has this URL."""
    api, directory = MemoryApi(), directory / "certificates"
    directory.mkdir(parents=True)
    data = {
        key: base64.b64encode(text.encode()).decode() for key, text in (("url", url), ("hosts", "127.0.0.1"))
    }
    api.objects["Secret", "redis"] = {"metadata": {"name": "redis", "namespace": "media"}, "data": data}
    body = queue_body(server, redis={"secretRef": {"name": "redis"}})
    body["metadata"]["uid"] = "uid-1"
    condition = {"type": "RedisReachable", "status": "True", "observedGeneration": 1}
    api.objects["ReliableQueue", "thumbs"] = {**body, "status": {"conditions": [condition]}}
    queues = ClusterQueues(api, directory)  # type: ignore[arg-type]  # it evicts nothing here
    try:
        await queues.refresh()
        access = SameForAll(may_act=True)
        yield Site(queues, Logins(by_tokens({TOKEN: "ann"}), hint=""), may_act=True, access=access)
    finally:
        await queues.close()


async def answers_for(
    server: Server, url: str, directory: Path
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[int, str], ...]]:
    """All that the page shows of a queue with this URL: the problems of its overview, and its answers."""
    async with site_of(server, url, directory) as site:
        with suppress(ClaimqError):
            await site.sampler.sample_all()
        without_login = app_of(Site(site._queues))
        apps = [app_of(site) if path.startswith(API) else without_login for path, *_ in REQUESTS]
        answers = [answer(app, *request) for app, request in zip(apps, REQUESTS, strict=True)]
        return tuple(site.sampler.problems.items()), tuple(await asyncio.gather(*answers))


async def test_ports_of_all_kinds_get_the_same_words(
    start_server: ServerFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server(tcp=True)
    with urls_of_other_ports(start_server) as urls:
        pages = await asyncio.gather(
            *(answers_for(server, url, tmp_path / str(number)) for number, url in enumerate(urls))
        )
    assert set(pages[1:]) == {pages[0]}
    ((name, problem),), answers = pages[0]
    assert (name, problem.partition(";")[0]) == ("media.thumbs", TEXT)
    assert [status for status, _ in answers] == [503] * 8
    assert all(TEXT in text for _, text in answers)
    assert ["the change may be done in part" in text for _, text in answers] == [False] * 4 + [True] * 4
    assert "media.thumbs: its server cannot be used" in caplog.text
    assert "the server requires a password" in caplog.text


@asynccontextmanager
async def owned(server: Server) -> AsyncGenerator[claimq.ReliableQueue]:
    """The queue of media/thumbs, with three failed items."""
    async with open_queue(server.url, "media.thumbs", worker="w1") as queue:
        await internals(queue).own(Owner("test", "media", "thumbs", "uid-1"))
        await queue.enqueue_many(["a", "b", "c"])
        for claim in await queue.claim(3, wait=0):
            await queue.fail(claim, error="x", permanent=True)
        yield queue


async def test_what_a_server_refuses_to_a_user_whom_it_accepts_is_shown(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    server = start_server(tcp=True)
    server.call("ACL", "SETUSER", "reader", "on", ">right", "+@all")
    url = f"redis://reader:right@127.0.0.1:{server.port}/0"
    async with owned(server), site_of(server, url, tmp_path) as site:
        assert "docs/acl.md" in (await answer(app_of(site), f"{API}/status"))[1]


async def test_a_change_whose_server_goes_away_does_not_say_how(
    start_server: ServerFactory, tmp_path: Path
) -> None:
    server = start_server(tcp=True)
    async with (
        owned(server) as queue,
        site_of(server, f"redis://127.0.0.1:{server.port}/0", tmp_path) as site,
    ):
        app = app_of(site)
        status, text = await answer(app, f"{API}/failed", FORM, "action=remove&rate=0.5")
        assert status == 200, text
        (run,) = site._runs._runs.values()

        async def is_begun() -> bool:
            return await queue.length(claimq.State.FAILED) < 3

        await eventually(is_begun)
        server.kill9()
        await eventually(lambda: not run.is_running)
        assert run.problem.partition(";")[0] == TEXT


async def test_the_page_of_a_server_of_ones_own_says_what_is_wrong(start_server: ServerFactory) -> None:
    server = start_server(tcp=True)
    server.call("CONFIG", "SET", "requirepass", "another")
    settings = claimq.RedisSettings(f"redis://127.0.0.1:{server.port}/0", retry_for=0.1)
    async with claimq.connect(settings=settings) as connection:
        site = Site(ServerQueues(connection, ["media.thumbs"], dict))
        status, text = await answer(app_of(site), "/queues/media.thumbs")
    assert (status, "the server requires a password" in text) == (500, True)
