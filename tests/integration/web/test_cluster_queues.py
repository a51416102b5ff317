"""The page of a cluster decides which servers and queues it uses; the status of an object can only forbid more."""

import base64
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

import claimq
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq_admin.cluster.owner_check import check_owner_or_name
from claimq_admin.cluster.server_settings import ClusterQueue
from claimq_admin.errors import ForeignQueue
from claimq_control.grants import NO_QUEUE_GRANTS, Grants, QueueGrants
from claimq_web.curves.samples import Samples
from claimq_web.queues.cluster_queues import ClusterQueues
from claimq_web.queues.sampler import Sampler
from claimq_web.website import Site
from testkit.kubernetes.operator_in_memory import MemoryApi, queue_body
from testkit.servers.contents import reads_of
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.server import Server

ACCEPTED = {"conditions": [{"type": "RedisReachable", "status": "True", "observedGeneration": 1}]}
"""What every user with the right to write a status can write."""
MINE = Owner("cluster-1", "media", "thumbs", "uid-1")
VICTIM = Owner("cluster-1", "bank", "orders", "uid-2")


def object_of(valkey: Server, **spec: Any) -> MemoryApi:
    """An API server with the ReliableQueue media/thumbs, whose status says that the operator has accepted it."""
    api = MemoryApi()
    body = queue_body(valkey, **{"redis": {"url": valkey.tcp_url}, **spec})
    body["metadata"]["uid"] = MINE.uid
    api.objects["ReliableQueue", "thumbs"] = {**body, "status": ACCEPTED}
    return api


@asynccontextmanager
async def page_of(
    api: MemoryApi, directory: Path, grants: QueueGrants = NO_QUEUE_GRANTS
) -> AsyncGenerator[ClusterQueues]:
    queues = ClusterQueues(api, directory, grants=grants)  # type: ignore[arg-type]  # it evicts nothing here
    try:
        await queues.refresh()
        yield queues
    finally:
        await queues.close()


@asynccontextmanager
async def owned(valkey: Server, name: str, owner: Owner | None) -> AsyncGenerator[claimq.ReliableQueue]:
    async with open_queue(valkey.url, name) as queue:
        await queue.enqueue("an item")
        if owner is not None:
            await internals(queue).own(owner)
        yield queue


async def test_a_queue_whose_owner_is_the_object_is_shown(valkey: Server, tmp_path: Path) -> None:
    async with owned(valkey, "media.thumbs", MINE), page_of(object_of(valkey), tmp_path) as queues:
        await queues.check("media.thumbs")
        assert await queues.names() == ["media.thumbs"]


async def test_a_status_does_not_open_a_queue_of_another_namespace(valkey: Server, tmp_path: Path) -> None:
    api = object_of(valkey, queueName="bank.orders")
    async with owned(valkey, "bank.orders", VICTIM), page_of(api, tmp_path) as queues:
        assert queues.queue("media.thumbs") is None
        assert 'spec.queueName: "bank.orders" does not begin with' in queues.unreadable()["media.thumbs"]
        with pytest.raises(ForeignQueue):
            await queues.check("media.thumbs")


async def test_an_owner_on_record_closes_a_name_that_a_setting_allows(valkey: Server, tmp_path: Path) -> None:
    api = object_of(valkey, queueName="bank.orders")
    grants = QueueGrants(queue_names=Grants((("media", "bank.*"),)))
    async with owned(valkey, "bank.orders", VICTIM), page_of(api, tmp_path, grants) as queues:
        with pytest.raises(ForeignQueue, match="belongs to the ReliableQueue bank/orders"):
            await queues.check("media.thumbs")


async def page_at(site: Site, path: str, messages: list[Message] | None = None) -> tuple[int, str]:
    """Status and text of a page without a login. ``messages``: takes those of the response."""
    sent = [] if messages is None else messages

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1")]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": headers}
    await site.app("127.0.0.1")({**scope, "client": ("127.0.0.1", 1)}, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent).decode()


async def test_the_page_shows_the_target_and_what_the_operator_decided(
    valkey: Server, tmp_path: Path
) -> None:
    api = object_of(valkey, scaling={"targetAge": "90s", "maxReplicas": 2})
    scaling = {"rule": "Target", "replicas": 2, "reason": "many items"}
    workers = {"ready": 3, "desired": 2}
    async with owned(valkey, "media.thumbs", MINE), page_of(api, tmp_path) as queues:
        for status in ({}, {"scaling": scaling, "workers": workers}):
            api.objects["ReliableQueue", "thumbs"]["status"] = {**ACCEPTED, **status}
            await queues.refresh()
            site = Site(queues, None, may_act=False)
            assert '<td class="number more">90 s</td>' in (await page_at(site, "/"))[1]
            code, text = await page_at(site, "/queues/media.thumbs")
            assert (code, "<small>target 90 s</small>" in text) == (200, True)
            assert ("2 workers wanted" in text, "No decision is known" in text) == (bool(status), not status)
            assert ("3 workers are ready, 1 more than the 2 wanted." in text) == bool(status)


async def test_the_commands_on_a_page_name_the_namespace_and_the_object(
    valkey: Server, tmp_path: Path
) -> None:
    async with owned(valkey, "media.thumbs", MINE) as queue, page_of(object_of(valkey), tmp_path) as queues:
        await queue.pause()
        site = Site(queues, None, may_act=False)
        text = (await page_at(site, "/queues/media.thumbs"))[1]
        assert "to end it now: claimq -n media resume thumbs<" in text
        assert "<code>claimq -n media why thumbs</code>" in text


@pytest.mark.parametrize(
    "status",
    [
        {
            "scaling": {
                "rule": "x",
                "inputs": {"main": "x", "oldestAge": []},
                "demand": {"arrivalsPerSecond": 1},
            }
        },
        {"scaling": {"rule": "<script>", "limit": "<script>", "inputs": 7, "demand": [7]}},
        {"scaling": {"replicas": 2}, "workers": {"desired": 1}},
        {"workers": {"ready": 1}},
        {"conditions": [*ACCEPTED["conditions"], {"type": "Odd"}]},
    ],
)
async def test_an_odd_status_stops_no_page(valkey: Server, tmp_path: Path, status: dict[str, Any]) -> None:
    api = object_of(valkey)
    api.objects["ReliableQueue", "thumbs"]["status"] = {**ACCEPTED, **status}
    async with owned(valkey, "media.thumbs", MINE), page_of(api, tmp_path) as queues:
        site = Site(queues, None, may_act=False)
        for path in ("/", "/queues/media.thumbs"):
            code, text = await page_at(site, path)
            assert (code, "<script>" in text) == (200, False), text


async def test_a_defect_is_a_page_that_says_so_and_goes_to_the_log(valkey: Server, tmp_path: Path) -> None:
    class Broken(ClusterQueues):
        def unreadable(self) -> Mapping[str, str]:
            raise ZeroDivisionError

    site = Site(Broken(object_of(valkey), tmp_path), None, may_act=False)  # type: ignore[arg-type]  # as above
    sent: list[Message] = []
    with pytest.raises(ZeroDivisionError):  # which the server logs
        await page_at(site, "/", sent)
    assert sent[0]["status"] == 500
    assert b"claimq has a defect, or met a value that it does not expect" in sent[1]["body"]


async def test_a_queue_without_an_owner_is_not_shown(valkey: Server, tmp_path: Path) -> None:
    async with owned(valkey, "media.thumbs", None), page_of(object_of(valkey), tmp_path) as queues:
        with pytest.raises(ForeignQueue, match="no owner"):
            await queues.check("media.thumbs")


async def test_a_status_does_not_send_a_password_to_another_host(valkey: Server, tmp_path: Path) -> None:
    api = object_of(valkey, redis={"url": valkey.tcp_url, "passwordSecretRef": {"name": "db"}})
    data = {"password": "s3cret", "hosts": "redis.bank"}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    api.objects["Secret", "db"] = {"metadata": {"name": "db"}, "data": encoded}
    async with page_of(api, tmp_path) as queues:
        assert queues.queue("media.thumbs") is None
        assert "does not allow its password to be sent" in queues.unreadable()["media.thumbs"]
    granted = QueueGrants(password_hosts=Grants((("media", "127.0.0.1"),)))
    async with page_of(api, tmp_path, granted) as queues:
        assert queues.queue("media.thumbs") is not None


async def test_the_page_keeps_little_of_what_a_user_writes_into_objects(
    valkey: Server, tmp_path: Path
) -> None:
    api = object_of(valkey, redis={"url": valkey.tcp_url, "passwordSecretRef": {"name": "db"}})
    large = "x" * 1_000_000
    encoded = {"password": "cw==", "hosts": base64.b64encode(b"127.0.0.1").decode(), "more": large}
    api.objects["Secret", "db"] = {"metadata": {"name": "db"}, "data": encoded}
    api.objects["Event", "one"] = {"metadata": {"annotations": {"a": large}}, "reason": "R", "message": large}
    body = api.objects["ReliableQueue", "thumbs"]
    body["metadata"] |= {"annotations": {"a": large}, "labels": {"a": large}, "finalizers": [large]}
    body["spec"]["worker"]["template"] = {"spec": {"affinity": {"a": large}}}
    async with page_of(api, tmp_path) as queues:
        assert queues.queue("media.thumbs") is not None
        assert len(json.dumps(queues._known["media.thumbs"].body)) < 2000
        assert len(json.dumps(await queues.events("media.thumbs"))) < 2000
    body["status"] = {**ACCEPTED, "more": large}
    async with page_of(api, tmp_path) as queues:
        assert (queues.queue("media.thumbs"), queues.status("media.thumbs")) == (None, {"suspend": False})
    del body["status"]["more"]
    encoded["password"] = base64.b64encode(b"x" * 20_000).decode()
    async with page_of(api, tmp_path) as queues:
        assert queues.queue("media.thumbs") is None
        assert "has 20,000 bytes; give at most 16,384" in queues.unreadable()["media.thumbs"]


async def test_a_command_uses_a_queue_of_its_namespace_or_of_its_object(valkey: Server) -> None:
    def named(queue: claimq.ReliableQueue) -> ClusterQueue:
        return ClusterQueue("thumbs", "media", MINE.uid, queue.name, patient(valkey.url))

    none = QueueGrants()
    async with (
        owned(valkey, "media.fresh", None) as fresh,
        owned(valkey, "bank.shared", MINE) as shared,
        owned(valkey, "bank.orders", VICTIM) as orders,
        owned(valkey, "bank.free", None) as free,
    ):
        await check_owner_or_name(fresh, named(fresh), none)
        await check_owner_or_name(shared, named(shared), none)
        await check_owner_or_name(free, named(free), QueueGrants(queue_names=Grants((("media", "bank.f*"),))))
        for foreign in (orders, free):
            with pytest.raises(ForeignQueue):
                await check_owner_or_name(foreign, named(foreign), none)


async def test_the_queues_of_one_server_are_sampled_together(valkey: Server, tmp_path: Path) -> None:
    api, names = MemoryApi(), [f"media.q{number:03}" for number in range(300)]
    async with open_server(valkey.url) as server:
        for number, name in enumerate(names):
            body = queue_body(valkey, redis={"url": valkey.tcp_url})
            body["metadata"] |= {"name": name.removeprefix("media."), "uid": f"uid-{number}"}
            api.objects["ReliableQueue", name] = {**body, "status": ACCEPTED}
            await server.queue(name).enqueue("an item")
            owner = (
                VICTIM
                if number == 7
                else Owner("cluster-1", "media", body["metadata"]["name"], f"uid-{number}")
            )
            await internals(server.queue(name)).own(owner)
    async with page_of(api, tmp_path) as queues:
        sampler = Sampler(queues, Samples())
        await sampler.sample_all()
        assert sampler.problems.keys() == {"media.q007"}
        before = reads_of(valkey)
        await sampler.sample_all()
        assert reads_of(valkey) - before <= 60
        assert sampler.problems.keys() == {"media.q007"}
        assert sampler.samples.names == {*names} - {"media.q007"}
