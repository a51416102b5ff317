"""What each role does with a queue, all of it: docs/acl.md says which rights that takes, and the tests prove it."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from redis.exceptions import RedisError

import claimq
from claimq.internals.next_claims import next_claims
from claimq.internals.operations import internals
from claimq.internals.owner import Owner
from claimq.model import Reason
from claimq.redis_store.faults import translate
from claimq.redis_store.presence import Presence
from testkit.queues.retries import retrying_at_once
from testkit.repository.tree import ROOT
from testkit.servers.resp import Reply
from testkit.servers.server import Server

DOCUMENT = ROOT / "docs" / "acl.md"
QUEUE = "mine"
PASSWORD = "s3cret-of-a-test"
BEGIN, END = "<!-- begin rights of ", " -->"


class Reached(Protocol):
    """A server, or a cluster whose nodes are found by the key."""

    def call(self, *words: str | bytes | float) -> Reply:
        """The reply."""
        ...


async def seed(server: Reached, store: claimq.Server) -> None:
    """As the administrator: something of every kind to meet."""
    server.call("FLUSHDB")
    server.call("LPUSH", f"cq:{{{QUEUE}-bare}}:main", *"abcd")
    queue = store.queue(QUEUE, worker="old")
    await queue.set_policy(retrying_at_once(requeue_limit=1, failed=claimq.FailedPolicy(max_items=2)))
    await queue.enqueue_many([b"%d" % number for number in range(40)])
    await queue.enqueue_many(
        [claimq.NewItem(b"%d" % number, client=f"c{number % 3}") for number in range(40)]
    )
    await queue.claim(2)
    many = store.queue(f"{QUEUE}-clients")  # more than are counted in one step
    await many.enqueue_many([claimq.NewItem(b"x", client=f"c{number}") for number in range(1001)])
    server.call("ZADD", f"cq:{{{QUEUE}}}:ids", 1, "long-forgotten")
    tokens = [word for number in range(5001) for word in (f"t{number}", "")]  # more than are read in one step
    server.call("HSET", f"cq:{{{QUEUE}-held}}:busy:many", *tokens)


async def produce(store: claimq.Server) -> None:
    """A producer: items of every kind, to one queue and to several."""
    queue = store.queue(QUEUE)
    await store.ping()
    await queue.enqueue(b"plain")
    await queue.enqueue_many([claimq.NewItem(b"x", id=f"id-{number}", client="a") for number in range(3)])
    await queue.enqueue(b"known", id="id-1")
    await queue.enqueue(b"later", delay=50.0)
    await queue.enqueue_many([claimq.NewItem(b"x", client=name, priority="high") for name in (None, "a")])
    await queue.enqueue_many([claimq.NewItem(b"x", key="k")] * 2)
    await store.enqueue({QUEUE: [b"x"]})
    await queue.length()
    await queue.snapshot()
    await queue.has_client("a")


async def work(store: claimq.Server) -> None:
    """A worker, or the sidecar beside it: claims with and without waiting, every verdict, what a claimer reaps."""
    queue = store.queue(QUEUE, worker="w")
    empty, bare = store.queue(f"{QUEUE}-empty", worker="w"), store.queue(f"{QUEUE}-bare", worker="w")
    await produce(store)
    for count in (1, 10):
        for verdict in (queue.done, queue.renew, queue.unclaim, queue.requeue):
            await verdict(await queue.claim(count, wait=0))
        await queue.requeue(await queue.claim(count, wait=0), delay=0.001)
        await queue.fail(await queue.claim(count, wait=0), "no")
        await queue.crash(await queue.claim(count, wait=0), "gone")
        await queue.drop(await queue.claim(1, wait=0), "no use")
    for claim in await queue.claim(3):
        await queue.done(claim, enqueue=[b"next"])
    await next_claims(queue).done_and_claim(await queue.claim(2), 1)
    await queue.fail(await queue.claim(4), "never", permanent=True)
    await queue.claim(5)
    await queue.release_worker("w", Reason.INTERRUPTED)
    await queue.release_worker("w", Reason.CRASHED)
    await store.queue(f"{QUEUE}-held").release_worker("many", Reason.CRASHED)
    for _ in range(3):
        await queue.reap()
    await empty.claim(wait=0.3)  # long enough that a busy machine begins to wait
    await bare.reap()
    await store.queue(f"{QUEUE}-clients").reap()
    for _ in range(2):
        await bare.done(await bare.claim(wait=0))
    large = store.queue(f"{QUEUE}-large", worker="w")  # more than one call may free
    for _ in range(9):
        await large.enqueue(b"x" * 2**20)
    await large.done([claim for _ in range(9) for claim in await large.claim(wait=0)])
    await present(queue)
    await queue.snapshot()
    await queue.policy()


async def present(queue: claimq.ReliableQueue) -> None:
    """The presence of a process that consumes."""
    connection, main = queue._connection, f"cq:{{{QUEUE}}}:main"
    presence = Presence(connection.settings, main, connection.lanes.instance, queue.worker)
    try:
        async with presence._subscription():
            for is_here in (1, 0):
                words = [connection.lanes.instance, queue.worker, is_here]
                assert await connection.run("announce", [main], words) == [b"OK", is_here]
    except RedisError as error:
        raise translate(error, doing="presence") from error


async def operate(store: claimq.Server) -> None:
    """An operator or administrator: policy, pause, reaping, failed items, looking, reports."""
    queue = store.queue(QUEUE, worker="w")
    await work(store)
    await queue.set_policy(retrying_at_once(requeue_limit=1, failed=claimq.FailedPolicy(max_items=2)))
    await queue.pause()
    await queue.resume()
    for state in ("main", "busy", "delayed", "failed"):
        await queue.items(state)
    failed = [located.name for located in await queue.items("failed")]
    await queue.find("nothing")
    await queue.claim(2)
    for located in await queue.items("busy"):
        await queue.find(located.item.id)
    await queue.enqueue("chosen", id="chosen", client="alone")
    for verdict in (queue.unclaim, queue.requeue, queue.done):
        await verdict([claim for claim in [await queue.claim_item("chosen")] if claim])
    await queue.update_policy(id_window=60)
    await queue.removed_items()
    await queue.record_action("ann", "pause")
    await queue.audit_log()
    await queue.enqueue("x", client="leaving")
    await queue.clients()
    await queue.flush_client("leaving")
    await queue.workers()
    await queue.memory_usage()
    await store.report()
    await queue.fail(await queue.claim(2), "never", permanent=True)
    await queue.apply_failed_policy()
    await queue.requeue_failed()
    await queue.fail(await queue.claim(3), "never", permanent=True)
    for name in failed:
        await queue.requeue_failed_item(name)
    await queue.remove_failed(log_limit=1)
    await queue.fail(await queue.claim(3), "never", permanent=True)
    _ = [located async for located in queue.drain_failed()]
    await queue.enqueue("interrupted")
    await queue.unclaim(await queue.claim(), why="asked to end")
    await internals(queue).recount("w", "evicted")
    await internals(queue).explain("w", "evicted")
    owner = Owner("cluster", "media", "thumbs", "uid-1")
    await internals(queue).own(owner)
    await queue.flush()


Role = Callable[[claimq.Server], Awaitable[None]]
ROLES: dict[str, Role] = {"producer": produce, "worker": work, "operator": operate}


def documented(role: str) -> list[str]:
    """The commands that the document gives a role, as ACL rules (`+hset`). An operator also has those of a worker."""
    text = DOCUMENT.read_text()
    _, found, rest = text.partition(f"{BEGIN}{role}{END}")
    if not found:
        raise LookupError(f"{DOCUMENT.name} has no rights of the {role}")
    commands = rest.partition("<!-- end -->")[0].replace("`", " ").split()
    return [*documented("worker"), *commands] if role == "operator" else commands


def give(server: Server, user: str, rights: list[str], *, keys: str = f"~cq:{{{QUEUE}*}}:*") -> None:
    """Makes a user with exactly these rights, on these keys and the channels of the same names."""
    channels = keys.replace("~", "&", 1)
    server.call("ACL", "SETUSER", user, "reset", "on", f">{PASSWORD}", keys, channels, *rights)


def denied(server: Server) -> set[str]:
    """The commands that the server refused to anybody since its log was emptied."""
    lines = server.call("ACL", "LOG")
    assert isinstance(lines, list)
    found: set[str] = set()
    for line in lines:
        assert isinstance(line, list)
        entry = dict(zip(map(str, line[::2]), line[1::2], strict=True))
        found.add(str(entry["b'object'"])[2:-1])
    return found


def url(server: Server, user: str) -> str:
    """The server, as that user."""
    return f"unix://{user}:{PASSWORD}@{server.unix_path}?db=0"
