"""Servers that anyone may run beside the others: slow ones and wrong ones do not stop the page for other queues."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.types import ASGIApp, Message

import claimq
from claimq.errors import StoreUnavailable
from claimq_admin.reads.documents import Json
from claimq_web.queues import limited_reads, sampler
from claimq_web.queues.queues import QueuesWithoutObjects
from claimq_web.users.login import Logins, by_tokens
from claimq_web.website import Site
from testkit.faults.foreign_port import foreign_port
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import eventually


class Both(QueuesWithoutObjects):
    """A queue of the test's server, and 20 of another one."""

    def __init__(self, good: claimq.Server, foreign: claimq.Server) -> None:
        self._queues = {"z.good": good.queue("z.good")}
        self._queues |= {f"a.{number}": foreign.queue(f"a.{number}") for number in range(20)}

    async def names(self) -> Sequence[str]:
        return sorted(self._queues)

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        return self._queues.get(name)

    def decisions(self) -> Mapping[str, Json]:
        return {}

    def servers(self) -> Iterable[claimq.Server]:
        return ()


@asynccontextmanager
async def foreign_server(kind: str) -> AsyncGenerator[str]:
    """A server that sends a reply byte by byte without an end, or one that no command of ours has."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            if kind == "slow":
                writer.write(b"$1000000\r\n")
                while not reader.at_eof():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            writer.write(b"+OK\r\n")
            await writer.drain()

    async with foreign_port(serve) as address:
        yield f"redis://{address}"


@asynccontextmanager
async def site_beside(kind: str, valkey: Server) -> AsyncGenerator[Site]:
    """A page with the queue of the test's server, which has an item, and those of a foreign server."""
    async with (
        foreign_server(kind) as url,
        open_server(valkey.url) as good,
        claimq.connect(settings=claimq.RedisSettings(url, retry_for=0.1)) as foreign,
    ):
        await good.queue("z.good").enqueue("x")
        yield Site(Both(good, foreign))


async def get(app: ASGIApp, path: str, token: str = "") -> tuple[int, str]:
    """The status and the text of a page."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
    }
    authorized = [(b"authorization", f"Bearer {token}".encode())] if token else []
    await app(
        {**scope, "headers": [(b"host", b"127.0.0.1"), *authorized], "client": ("127.0.0.1", 1), "state": {}},
        receive,
        send,
    )
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return int(sent[0]["status"]), body.decode()


@pytest.mark.parametrize("kind", ["slow", "wrong"])
async def test_the_other_queues_are_sampled(
    kind: str, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "_SAMPLE_SECONDS", 0.5)
    async with site_beside(kind, valkey) as site:

        async def is_sampled() -> bool:
            """A busy machine may need several passes, for half a second is short."""
            with suppress(StoreUnavailable):
                await site.sampler.sample_all()
            return set(site.sampler.samples.names) == {"z.good"} and len(site.sampler.problems) == 20

        await eventually(is_sampled)


@pytest.mark.parametrize("kind", ["slow", "wrong"])
async def test_the_pages_of_other_queues_are_served(
    kind: str, valkey: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampler, "_SAMPLE_SECONDS", 0.5)
    async with site_beside(kind, valkey) as site:
        app = site.app("127.0.0.1")
        open_pages = [asyncio.ensure_future(get(app, "/queues/a.0/waiting")) for _ in range(40)]
        await asyncio.sleep(0)
        assert (await get(app, "/queues/z.good/waiting"))[0] == 200

        async def is_listed() -> bool:
            site.sampler.problems = {}  # of a pass in which the busy machine was too slow: the page takes new samples
            status, page = await get(app, "/")
            return (status, "/queues/z.good" in page) == (200, True)

        await eventually(is_listed)
        for one in open_pages:
            one.cancel()
        await asyncio.gather(*open_pages, return_exceptions=True)


async def test_a_page_of_a_slow_server_says_so(valkey: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_reads, "_SECONDS", 0.5)
    async with site_beside("slow", valkey) as site:
        status, page = await get(site.app("127.0.0.1"), "/queues/a.0/waiting")
        assert (status, "did not finish its answers" in page) == (503, True)


async def test_requests_of_one_user_on_a_slow_server_keep_no_others_out(valkey: Server) -> None:
    tokens = {"a" * 20: "mallory", "b" * 20: "ann"}
    async with site_beside("slow", valkey) as site:
        site_of_users = Site(site._queues, Logins(by_tokens(tokens), hint=""))
        app = site_of_users.app("127.0.0.1")
        path = "/api/v1/queues/{}/status"
        open_requests = [
            asyncio.ensure_future(get(app, path.format(f"a.{number % 20}"), "a" * 20)) for number in range(70)
        ]
        for _ in range(20):
            await asyncio.sleep(0)
        assert sum(one.done() and one.result()[0] == 429 for one in open_requests) == 62
        assert (await get(app, "/healthz"))[0] == 200
        assert (await get(app, path.format("z.good"), "b" * 20))[0] == 200
        for one in open_requests:
            one.cancel()
