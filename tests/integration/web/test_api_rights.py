"""The API with permissions of Kubernetes: what each change needs, and which bodies of requests are refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from starlette.types import ASGIApp, Message, Receive

import claimq
from claimq_kubernetes.port import Kind
from claimq_web.changes import actions, runs
from claimq_web.queues.queues import ServerQueues
from claimq_web.users import reviews
from claimq_web.users.login import Logins, User
from claimq_web.users.reviews import ReviewedAccess
from claimq_web.website import Site
from testkit.servers.patient import open_server
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

FORM, JSON = "application/x-www-form-urlencoded", "application/json"
LOOK = ("get", "")
PATH = "/api/v1/queues/shop.orders"
NEW = '{"items": [{"payload": "new", "client": "eve"}]}'
CHANGES: list[tuple[str, str, str, tuple[str, str]]] = [
    ("/enqueue", JSON, NEW, ("create", "items")),
    ("", FORM, "action=flush", ("update", "items")),
    ("", FORM, "action=release&worker=w1", ("update", "items")),
    ("", FORM, "action=policy&changes=requeue_limit%3D3", ("patch", "")),
]
"""Requests, and the verb and subresource that their user needs beside LOOK."""


class Cluster:
    """Reviews permissions as an API server does."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str]] = set()
        self.refused: set[tuple[str, str]] = set()

    async def create(self, _: Kind, body: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        is_allowed = (asked["verb"], asked["subresource"]) in self.allowed
        return {"status": {"allowed": is_allowed and (asked["verb"], asked["name"]) not in self.refused}}


class Page:
    """The page of the queue `shop.orders`."""

    def __init__(self, queue: claimq.ReliableQueue, server: claimq.Server) -> None:
        self.queue = queue
        self.server = server
        self.cluster = Cluster()
        self._queues = ServerQueues(server, [], dict)

    def allowing(self, *allowed: tuple[str, str]) -> ASGIApp:
        """The app, where each user has these permissions."""
        self.cluster = Cluster()
        self.cluster.allowed = {*allowed}

        async def known(token: str, _: str) -> User:
            return User(token)

        access = ReviewedAccess(self.cluster, may_act=True)  # type: ignore[arg-type]  # it only creates
        return Site(self._queues, Logins(known, hint=""), may_act=True, access=access).app("127.0.0.1")

    async def state(self) -> object:
        """What a change changes."""
        return await self.queue.lengths(), await self.queue.policy(), await self.queue.audit_log()


@pytest.fixture
async def page(valkey: Server) -> AsyncIterator[Page]:
    """A page over a queue with a claim of w1."""
    async with open_server(valkey.url) as server:
        queue = server.queue("shop.orders", worker="w1")
        await queue.enqueue("a", id="a")
        await queue.claim(1, wait=0)
        yield Page(queue, server)


async def send(
    app: ASGIApp, path: str, body: str = "", kind: str = "", receive: Receive | None = None, **headers: str
) -> tuple[int, str]:
    """The answer to a request of ann: a POST if it has a body. ``receive``: how its body arrives."""
    sent: list[Message] = []
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    given = {"host": "127.0.0.1", "authorization": "Bearer ann", **changed}
    if body:
        given = {"content-type": kind, "content-length": str(len(body)), **given}
    scope = {
        "type": "http", "method": "POST" if body else "GET", "path": path, "root_path": "", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
    }  # fmt: skip

    async def whole() -> Message:
        return {"type": "http.request", "body": body.encode()}

    async def note(message: Message) -> None:
        sent.append(message)

    await app(scope, receive or whole, note)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:]).decode()


async def test_each_change_needs_its_permission_and_no_other(page: Page) -> None:
    rights = {needed for *_, needed in CHANGES} | {LOOK, ("get", "items")}
    before = await page.state()
    for path, kind, body, needed in CHANGES:
        app = page.allowing(*(rights - {needed}))
        status, text = await send(app, f"{PATH}{path}", body, kind)
        assert (status, text.startswith('{"message": "you may not ')) == (403, True), body
        assert (await send(page.allowing(), f"{PATH}{path}", body, kind))[0] == 404
    assert await page.state() == before
    for path, kind, body, needed in CHANGES:
        status, text = await send(page.allowing(LOOK, needed), f"{PATH}{path}", body, kind)
        assert (status, "message" in json.loads(text)) == (200, True), text
    log = sorted((one.actor, one.action) for one in await page.queue.audit_log())
    assert log == [("ann", action) for action in ("enqueue", "flush", "policy", "release")]
    assert json.loads((await send(page.allowing(LOOK), f"{PATH}/policy"))[1])["policy"]["requeue_limit"] == 3
    assert (await send(page.allowing(("get", "items")), f"{PATH}/policy"))[0] == 404


async def test_a_move_ends_when_its_user_may_not_add_items_to_the_target_any_more(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_CHECK_EVERY", 0.01)
    monkeypatch.setattr(reviews, "_REMEMBERED_SECONDS", 0.0)
    await page.server.queue("shop.other").pause()
    await page.queue.enqueue_many(["x"] * 100)
    app = page.allowing(LOOK, ("get", "items"), ("update", "items"), ("create", "items"))
    move = "action=move&target=shop.other&rate=0.1"
    page.cluster.refused = {("create", "other")}
    for path in ("waiting", "item"):
        status, text = await send(app, f"{PATH}/{path}", f"{move}&id=a" if path == "item" else move, FORM)
        assert (status, "you may not add items to it: shop.other" in text) == (403, True)
    page.cluster.refused = {("update", "other")}
    status, text = await send(app, f"{PATH}/waiting", move, FORM)
    assert status == 200, text
    path = f"{PATH}/runs/{json.loads(text)['run']}"
    assert json.loads((await send(app, path))[1])["state"] == "running"
    page.cluster.refused = {("create", "other")}

    async def problem() -> bool:
        return "ann may not change this queue any more" in (await send(app, path))[1]

    await eventually(problem)


async def test_the_audit_log_has_the_whole_of_a_change(page: Page) -> None:
    app = page.allowing(LOOK, ("patch", ""), ("update", "items"), ("create", "items"))
    long = "retry_delay_factor=2." + "0" * 450
    status, text = await send(app, PATH, f"action=policy&changes={quote(long)}+durable_done%3Dtrue", FORM)
    assert status == 200, text
    target = page.server.queue("shop." + "o" * 150)
    await target.pause()
    await page.queue.enqueue("b", id="b")
    for path, body in (("item", "id=b"), ("failed", "")):
        status, text = await send(app, f"{PATH}/{path}", f"action=move&target={target.name}&{body}", FORM)
        assert status == 200, text
    await eventually(lambda: _has_ended(page.queue))
    found = [(one.action, one.target) for one in reversed(await page.queue.audit_log())]
    assert found == [
        *[("policy", part) for part in (long[:400], f"{long[400:]} durable_done=true")],
        ("move", f"b to {target.name}"),
        ("move failed", f"to {target.name}: all"), ("move failed: ended", f"to {target.name}: all"),
    ]  # fmt: skip
    await eventually(lambda: _has_ended(target))
    there = [(one.actor, one.action, one.target, one.count) for one in reversed(await target.audit_log())]
    assert there == [
        ("ann", "move here", "b from shop.orders", 1),
        ("ann", "move here", "from shop.orders: all", None),
        ("ann", "move here: ended", "from shop.orders: all", 0),
    ]


async def test_users_who_may_only_enqueue_push_no_record_of_others_out(page: Page, valkey: Server) -> None:
    await page.queue.record_action("bob", "flush", count=9)
    app = page.allowing(LOOK, ("create", "items"))
    key = "cq:{shop.orders}:added"
    valkey.call("LPUSH", key, *[f'{number} {{"action":"old"}}' for number in range(1000)])
    valkey.call("LPUSH", "cq:{shop.orders}:audit", *[f'{number} {{"action":"old"}}' for number in range(999)])
    for _ in range(3):
        assert (await send(app, f"{PATH}/enqueue", NEW, JSON))[0] == 200
    log = await page.queue.audit_log(3000)
    assert len(log) == 2000
    assert [(one.actor, one.action, one.count) for one in log if one.actor == "bob"] == [("bob", "flush", 9)]
    assert [one.action for one in log if one.actor == "ann"] == ["enqueue"] * 3


async def test_requests_without_their_bodies_keep_no_enqueue_of_others_out(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "_ENQUEUE_SECONDS", PATIENCE)
    app, reading = page.allowing(LOOK, ("create", "items")), asyncio.Semaphore(0)

    async def nothing() -> Message:
        reading.release()
        return await asyncio.Future()

    async with asyncio.TaskGroup() as group:
        silent = [
            group.create_task(
                send(app, f"{PATH}/enqueue", NEW, JSON, nothing, authorization=f"Bearer eve{n % 4}")
            )
            for n in range(8)
        ]
        await reading.acquire()
        assert (await send(app, f"{PATH}/enqueue", NEW, JSON))[0] == 200
        assert not any(one.done() for one in silent)
        for one in silent:
            one.cancel()


async def _has_ended(queue: claimq.ReliableQueue) -> bool:
    return (await queue.audit_log(1))[0].action.endswith(": ended")


async def test_bodies_that_are_no_items_are_refused_and_nothing_is_enqueued(page: Page) -> None:
    app, before = page.allowing(LOOK, ("create", "items")), await page.state()
    for body, kind, headers, status in (
        (NEW, FORM, {}, 415),
        (NEW, JSON, {"content_length": str(4 * 1024 * 1024 + 1)}, 413),
        (NEW, JSON, {"origin": "http://evil.example"}, 403),
        (NEW, JSON, {"sec_fetch_site": "cross-site"}, 403),
        (NEW, JSON, {"authorization": ""}, 401),
        ("[]", JSON, {}, 400),
        ("[" * 100_000, JSON, {}, 400),
        (json.dumps({"items": []}), JSON, {}, 400),
        (json.dumps({"items": [{"payload": "x"}], "colour": "red"}), JSON, {}, 400),
        (json.dumps({"items": [{"payload": "x"}] * 1001}), JSON, {}, 400),
        *(
            (json.dumps({"items": [{"payload": "good"}, bad]}), JSON, {}, 400)
            for bad in (
                7, {}, {"payload": 7}, {"payload": "x", "colour": "red"}, {"payload": "x", "delay": True},
                {"payload": "x", "delay": -1}, {"payload": "x", "delay": 1, "at": 1}, {"payload": "x", "id": "a b"},
                {"payload": "x", "expires_in": 1, "deadline": 4e9}, {"payload_base64": "?"},
            )
        ),
    ):  # fmt: skip
        answered, text = await send(app, f"{PATH}/enqueue", body, kind, None, **headers)
        document = json.loads(text)
        assert document.pop("index", None) == (1 if '"good"' in body else None), body[:100]
        assert (answered, [*document]) == (status, ["message"]), (body[:100], headers)
    for kind, status in ((JSON, 415), (FORM, 403)):  # a form of a browser has no such path
        assert (await send(app, "/queues/shop.orders/enqueue", NEW, kind))[0] == status
    assert await page.state() == before
