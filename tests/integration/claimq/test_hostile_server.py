"""A server that others control can neither keep a read going, nor fill the memory, nor raise a foreign exception."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import claimq
from claimq import ReadBounds, ReadTooLarge, RedisSettings, ReliableQueue
from claimq.errors import ClaimqError
from claimq.internals.chosen_failed import chosen_failed
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.model import Item, Located, Reason, State
from claimq.redis_store.bounded_read import BoundedRead
from claimq.tokens import make_token
from claimq_admin.changes.queue_admin import admin_of
from claimq_admin.reads.documents import Json
from claimq_admin.reads.queue_reads import first_matching
from claimq_admin.selection.item_filter import ItemFilter
from claimq_admin.selection.selected_items import SelectedItems
from claimq_web.queues.queues import QueuesWithoutObjects
from claimq_web.website import Site
from testkit.faults.hostile_server import PAGE, Answer, endless, hostile_server, snapshot_reply
from testkit.kubernetes.operator_in_memory import MemoryApi, add_queue, conditions, operator
from testkit.waiting import PATIENCE, eventually

BOUNDS = ReadBounds(rows=20_000, size=8 * 1024 * 1024, seconds=0.3)
TOKEN = make_token("w", 1795232291850000, "q3Zt-9aB")
OWNER = Owner("c", "n", "q", "u")
FAILED = Located(Item("x", b"x", 1.0, 1.0), State.FAILED, name="x", failed_at=1.0)
Call = Callable[[ReliableQueue], Awaitable[object]]


async def drain(queue: ReliableQueue) -> None:
    async for _ in queue.drain_failed():
        pass


ENDLESS: dict[str, Call] = {
    "workers": lambda queue: queue.workers(),
    "clients": lambda queue: queue.clients(),
    "memory_usage": lambda queue: queue.memory_usage(),
    "items": lambda queue: queue.items("delayed"),
    "failed items": lambda queue: queue.items("failed"),
    "peek": lambda queue: queue.peek(5),
    "find": lambda queue: queue.find("x"),
    "claim_item": lambda queue: queue.claim_item("x"),
    "tokens": lambda queue: internals(queue).tokens_claimed_before("w", 1.0),
    "release_worker": lambda queue: queue.release_worker("w", Reason.CRASHED),
    "explain": lambda queue: internals(queue).explain("w", "cause"),
    "recount": lambda queue: internals(queue).recount("w", "cause"),
    "flush": lambda queue: queue.flush(),
    "delete": lambda queue: queue.delete(),
    "delete_owned": lambda queue: internals(queue).delete_owned(OWNER),
    "requeue_failed": lambda queue: queue.requeue_failed(),
    "remove_failed": lambda queue: queue.remove_failed(),
    "drain_failed": drain,
    "unclaim": lambda queue: queue.unclaim([TOKEN]),
}
OTHERS: dict[str, Call] = {
    "snapshot": lambda queue: queue.snapshot(),
    "policy": lambda queue: queue.policy(),
    "reap": lambda queue: queue.reap(),
    "own": lambda queue: internals(queue).own(OWNER),
    "try_scripts": lambda queue: internals(queue).try_scripts(),
    "owner": lambda queue: internals(queue).owner(),
    "client_length": lambda queue: queue.client_length("c"),
    "failed_item": lambda queue: queue.failed_item("x"),
    "longest_claims": lambda queue: queue.longest_claims(payload_limit=9),
    "items with a limit": lambda queue: queue.items("main", payload_limit=9),
    "removed_items": lambda queue: queue.removed_items(),
    "audit_log": lambda queue: queue.audit_log(),
    "flush_client": lambda queue: queue.flush_client("c"),
    "requeue_failed_item": lambda queue: queue.requeue_failed_item("x"),
    "requeue of chosen items": lambda queue: chosen_failed(queue).requeue([FAILED] * 2),
    "removal of chosen items": lambda queue: chosen_failed(queue).remove([FAILED] * 2),
    "apply_failed_policy": lambda queue: queue.apply_failed_policy(),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_a_read_without_an_end_is_ended(name: str) -> None:
    async with hostile_server(endless()) as url:
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, read_bounds=BOUNDS)
        async with claimq.connect(settings=settings) as store:
            tracemalloc.start()
            try:
                with pytest.raises(ReadTooLarge, match="the most that this program takes"):
                    async with asyncio.timeout(PATIENCE):
                        await ENDLESS[name](store.queue("q"))
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    assert peak < 32 * 1024 * 1024


async def test_the_list_of_queues_of_a_server_is_bounded() -> None:
    async with hostile_server(endless()) as url:
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, read_bounds=BOUNDS)
        async with claimq.connect(settings=settings) as store:
            with pytest.raises(ReadTooLarge, match="queues: "):
                await store.queues()


ODD: list[Any] = [
    None, -1, 10**17, "", "nan", b"\xff\xfe", "1 2", [], [None], ["OK"], ["OK", None], ["OK", "nan"], [10**30] * 12,
    [-1] * 12, ["nan"] * 12, ["1e300"] * 13, [[]] * 12, ["OK", *["x"] * 11], [["a", "nan"]], ["a", "b", "c"],
]  # fmt: skip


@pytest.mark.parametrize("name", [*ENDLESS, *OTHERS])
async def test_a_reply_of_any_shape_is_an_error_of_the_server(name: str) -> None:
    calls = ENDLESS | OTHERS
    odd: Any = None

    class Odd(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            return key not in ("CLIENT", "SELECT", "HELLO", "AUTH", "PING", "TYPE")

        def __getitem__(self, key: str) -> Answer:
            return answer

    def answer(words: list[bytes]) -> Any:
        return odd

    async with hostile_server(Odd()) as url:
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, read_bounds=BOUNDS)
        async with claimq.connect(settings=settings) as store:
            for odd in ODD:  # noqa: B007 - the server reads it
                try:
                    async with asyncio.timeout(PATIENCE):
                        await calls[name](store.queue("q"))
                except ClaimqError:
                    pass


async def test_numbers_that_no_queue_has_are_refused_or_shown() -> None:
    now = 10**17  # the year 3170843
    answers: dict[str, Answer] = {
        "snapshot": lambda _: snapshot_reply(busy=1, now=now),
        "workers": lambda _: ["w", "nan", 1, "v", str(now), 1],
    }
    async with hostile_server(answers) as url, claimq.connect(url) as store:
        with pytest.raises(claimq.StoreMisused, match="snapshot: the server's reply cannot be read"):
            await store.queue("q").snapshot()
        seen = {one.worker: one.last_seen_at for one in await store.queue("q").workers()}
    assert seen == {"w": 0.0, "v": 253_402_300_799.0}


async def test_the_operator_reports_a_server_without_an_end_and_stays_small(tmp_path: Path) -> None:
    api = MemoryApi()
    async with hostile_server(endless()) as url, operator(api, tmp_path) as context:
        body = {
            "apiVersion": "claimq.dev/v1alpha1",
            "kind": "ReliableQueue",
            "metadata": {"name": "thumbs", "namespace": "media", "generation": 1},
            "spec": {"redis": {"url": url}, "worker": {"image": "app:1"}},
        }
        tracemalloc.start()
        try:
            await add_queue(context, api, body)
            await eventually(lambda: conditions(api).get("RedisReachable") == "False ReadTooLarge")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


class OneQueue(QueuesWithoutObjects):
    def __init__(self, store: claimq.Server) -> None:
        self._queue = store.queue("q")

    async def names(self) -> Sequence[str]:
        return ["q"]

    def queue(self, name: str) -> claimq.ReliableQueue | None:
        return self._queue if name == "q" else None

    def decisions(self) -> Mapping[str, Json]:
        return {}

    def servers(self) -> Sequence[claimq.Server]:
        return ()


async def page_of(site: Site, path: str) -> tuple[int, str]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    await site.app("127.0.0.1")(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:]).decode()


@pytest.mark.parametrize("path", ["/queues/q", "/queues/q/waiting", "/queues/q/busy", "/queues/q/failed"])
async def test_the_page_names_the_fault_of_such_a_server_and_stays_small(path: str) -> None:
    async with hostile_server(endless()) as url:
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, read_bounds=BOUNDS)
        async with claimq.connect(settings=settings) as store:
            tracemalloc.start()
            try:
                status, text = await page_of(Site(OneQueue(store)), path)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
    # On a busy machine the page's own limit of 20 s may come first.
    faults = ("the most that this program takes", "the server did not finish its answers within")
    assert status == 200 or any(fault in text for fault in faults)
    assert peak < 64 * 1024 * 1024


def always_matches() -> dict[str, Answer]:
    """A full page of items or claims after every page, as if the queue had no end."""
    item = b"an item"
    rows = ["w/1.n", str(10**12), item] * PAGE
    lengths = snapshot_reply(*[10**15] * 4)

    def page(words: list[bytes]) -> list[Any]:
        return [0, *rows[: 3 * int(words[2])]]

    return {"items": page, "ZRANGEBYSCORE": lambda _: [], "snapshot": lambda _: lengths}


async def walked(queue: ReliableQueue) -> None:
    reads = BoundedRead("run", BOUNDS, keeps=False, parses=False)
    wanted = ItemFilter(error="no item has it")
    await SelectedItems(admin_of(queue, "ann"), wanted, reads=reads).count(asyncio.Event())


LOOPS: dict[str, Call] = {
    "items that match": lambda queue: first_matching(queue, State.FAILED, lambda _: False, 10, 0),
    "run": walked,
}


@pytest.mark.parametrize("name", LOOPS)
async def test_a_loop_of_the_command_line_or_the_page_is_ended(name: str) -> None:
    async with hostile_server(always_matches()) as url:
        settings = RedisSettings(url, retry_for=0.1, reply_timeout=PATIENCE, read_bounds=BOUNDS)
        async with claimq.connect(settings=settings) as store:
            with pytest.raises(ReadTooLarge, match=r"the server returned replies for more than 0\.3 s"):
                async with asyncio.timeout(PATIENCE):
                    await LOOPS[name](store.queue("q"))
