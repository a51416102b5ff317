"""docs/acl.md: what it gives a role is enough, all of it is needed, and it opens nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

import claimq
from claimq import Durability, NewItem, NotReplicated, Policy, Verdict
from claimq.errors import ClaimqError, StoreMisused
from claimq.internals.next_claims import next_claims
from claimq.model import Reason
from testkit.queues import roles
from testkit.servers.contents import changes, contents
from testkit.servers.patient import open_queue, open_server, patient
from testkit.servers.resp import Connection, ReplyError, Words
from testkit.servers.server import Server
from testkit.waiting import PATIENCE, eventually

OTHERS = "cq:{theirs}:main"
EVERYTHING = [
    ("FLUSHALL",), ("FLUSHDB",), ("KEYS", "*"), ("SCAN", "0"), ("CONFIG", "SET", "maxmemory", "1mb"), ("SHUTDOWN",),
    ("ACL", "LIST"), ("SCRIPT", "FLUSH"), ("FUNCTION", "FLUSH"), ("DEBUG", "SLEEP", "0"), ("SWAPDB", "0", "1"),
    ("RENAME", "cq:{mine}:main", "cq:{mine}:x"), ("REPLICAOF", "NO", "ONE"), ("MONITOR",),
    ("CLIENT", "KILL", "TYPE", "normal"),
]  # fmt: skip


async def run_as(server: Server, role: str, rights: list[str]) -> ClaimqError | None:
    """Does all that a role does, with just these rights, on a server without a script; what went wrong, in the reply
    or in the server's own log."""
    roles.give(server, role, rights)
    async with open_server(server.url) as admin:
        await roles.seed(server, admin)
    server.call("ACL", "LOG", "RESET")
    server.call("SCRIPT", "FLUSH")
    settings = patient(roles.url(server, role), retry_for=0.5)
    try:
        async with claimq.connect(settings=settings) as store:
            await roles.ROLES[role](store)
    except ClaimqError as error:
        return error
    denied = roles.denied(server) - {"client|setinfo", "config|get"}
    return StoreMisused(f"denied on the way: {denied}") if denied else None


@pytest.mark.parametrize("role", roles.ROLES)
async def test_what_the_document_gives_a_role_is_enough(server: Server, role: str) -> None:
    assert await run_as(server, role, roles.documented(role)) is None


@pytest.mark.servers("valkey")
@pytest.mark.parametrize("role", roles.ROLES)
async def test_each_right_that_the_document_gives_is_needed(server: Server, role: str) -> None:
    rights = roles.documented(role)

    async def is_idle(right: str) -> bool:
        """In a run that stands still before a wait, the wait is over and needs no right."""
        for _ in range(5):
            if await run_as(server, role, [one for one in rights if one != right]) is not None:
                return False
        return True

    assert [right for right in rights if await is_idle(right)] == []


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_may_do_nothing_else(server: Server, role: str) -> None:
    server.call("LPUSH", OTHERS, "x")
    roles.give(server, role, roles.documented(role))
    client = Connection(server.unix_path, PATIENCE)
    client.call("AUTH", role, roles.PASSWORD)
    foreign = [
        ("LPUSH", OTHERS, "y"),
        ("LLEN", OTHERS),
        ("EVAL", "return redis.call('LLEN', KEYS[1])", 1, OTHERS),
    ]
    for words in (*EVERYTHING, *foreign):
        with pytest.raises(ReplyError, match="NOPERM"):
            client.call(*words)
    with pytest.raises(ReplyError, match=r"No permissions|can't access|ACL failure"):
        client.call("EVAL", f"return redis.call('LPUSH', '{OTHERS}', 'y')", 0)
    client.close()
    assert server.call("LRANGE", OTHERS, 0, -1) == [b"x"]


SECRETS = ("secret-requirepass", "secret-masterauth", "secret-queue", "secret-payload", "secret-client")


def every_command(server: Server) -> list[tuple[str, ...]]:
    """Each command and subcommand of the server, with the least number of arguments, of several kinds."""
    listed = server.call("COMMAND")
    assert isinstance(listed, list)
    found: list[tuple[str, ...]] = []
    while listed:
        entry = listed.pop()
        assert isinstance(entry, list)
        name, arity = entry[0], entry[1]
        assert isinstance(name, bytes)
        assert isinstance(arity, int)
        words = tuple(name.decode().split("|"))
        missing = max(abs(arity) - len(words), 0)
        fillers = ("*", "0", "requirepass", "masterauth", "default", f"cq:{{{roles.QUEUE}}}:main")
        found += [words + (filler,) * count for filler in fillers for count in {missing, missing + 1}]
        subcommands = entry[9] if len(entry) > 9 else None
        listed += subcommands if isinstance(subcommands, list) else []
    return found


def replies_to(server: Server, role: str, commands: Sequence[Words]) -> str:
    """The replies on a connection of its own, as text, errors among them."""
    client = Connection(server.unix_path, PATIENCE)
    try:
        # SUBSCRIBE has a reply for each channel, MONITOR one for each call.
        return repr(client.calls([("AUTH", role, roles.PASSWORD), *commands]))
    except (OSError, ConnectionError, EOFError):
        return ""  # QUIT
    finally:
        client.close()


@pytest.mark.parametrize("role", roles.ROLES)
def test_a_role_learns_no_password_and_nothing_of_other_queues(server: Server, role: str) -> None:
    commands = every_command(server)
    assert ("config", "get", "requirepass") in commands
    other = Connection(server.unix_path, PATIENCE)
    other.call("CLIENT", "SETNAME", "secret-client")
    other.call("LPUSH", "cq:{secret-queue}:main", "secret-payload")
    other.call("ZADD", "cq:queues", 0, "secret-queue")
    other.call("CONFIG", "SET", "slowlog-log-slower-than", "0")
    other.call("CONFIG", "SET", "masterauth", "secret-masterauth")
    roles.give(server, role, roles.documented(role))
    other.call("CONFIG", "SET", "requirepass", "secret-requirepass")
    try:
        learned: dict[str, str] = {}
        for words in commands:
            call = ("EVAL", "return redis.call(unpack(ARGV))", "0", *words)
            replies = replies_to(
                server, role, [words, call] if words[0] not in ("quit", "reset") else [words]
            )
            learned |= {secret: f"{words}" for secret in SECRETS if secret in replies}
        assert learned == {}
    finally:
        other.call("CONFIG", "SET", "requirepass", "")
        other.call("CONFIG", "SET", "masterauth", "")
        other.call("CONFIG", "SET", "slowlog-log-slower-than", "10000")
        other.close()


@pytest.mark.parametrize("role", roles.ROLES)
async def test_a_foreign_queue_is_refused_with_what_to_do_and_nothing_changes(
    server: Server, role: str
) -> None:
    roles.give(server, role, roles.documented(role))
    async with open_server(roles.url(server, role)) as store:
        queue = store.queue("theirs")
        with pytest.raises(StoreMisused, match=r"may not do this.*docs/acl\.md"):
            await queue.enqueue(b"x")
        with pytest.raises(StoreMisused, match=r"may not do this.*docs/acl\.md"):
            await store.enqueue({roles.QUEUE: [b"x"], "theirs": [b"y"]})
        assert await store.queue(roles.QUEUE).length() == 0
    assert server.call("EXISTS", OTHERS) == 0


async def test_a_producer_cannot_claim(server: Server) -> None:
    roles.give(server, "producer", roles.documented("producer"))
    async with open_queue(roles.url(server, "producer"), roles.QUEUE) as queue:
        await queue.enqueue(b"x")
        with pytest.raises(StoreMisused, match="may not do this"):
            await queue.claim(wait=0)
        assert await queue.length("main") == 1
        assert await queue.length("busy") == 0


async def test_a_right_taken_away_in_the_middle_is_said_and_given_back_it_goes_on(server: Server) -> None:
    rights = roles.documented("worker")
    roles.give(server, "worker", rights)
    async with open_queue(roles.url(server, "worker"), roles.QUEUE, worker="w") as queue:
        await queue.enqueue_many([b"1", b"2"])
        claims = await queue.claim(2)
        server.call("ACL", "SETUSER", "worker", "-hdel")
        with pytest.raises(StoreMisused, match="may not do this"):
            await queue.done(claims)
        server.call("ACL", "SETUSER", "worker", "+hdel")
        assert [one.verdict for one in await queue.done(claims)] == [Verdict.DONE, Verdict.DONE]


async def test_a_user_who_could_not_end_a_claim_claims_nothing(server: Server) -> None:
    roles.give(server, "worker", roles.documented("worker"))
    async with open_queue(roles.url(server, "worker"), roles.QUEUE, worker="w") as queue:
        await queue.enqueue_many([NewItem(name, id=name) for name in ("1", "2")])
        await queue.unclaim(await queue.claim(1))  # a claim that knows the queue's data
        server.call("ACL", "SETUSER", "worker", "-hdel")
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: queue.claim(1, wait=0),
            lambda: queue.claim_item("2"),
            lambda: next_claims(queue).done_and_claim([], 1),
        ]
        before = contents(server)
        for call in calls:
            with pytest.raises(StoreMisused, match="may not do this"):
                await call()
        assert changes(before, contents(server)) == {}


async def test_a_password_is_changed_while_work_goes_on(server: Server) -> None:
    roles.give(server, "worker", roles.documented("worker"))
    async with open_queue(roles.url(server, "worker"), roles.QUEUE, worker="old") as queue:
        await queue.enqueue_many([b"%d" % number for number in range(4)])
        (first,) = await queue.claim()
        await queue.renew(first)  # over the connection for verdicts, which is open from now on
        server.call("ACL", "SETUSER", "worker", ">n3w")
        async with open_server(f"unix://worker:n3w@{server.unix_path}?db=0") as new:
            (second,) = await new.queue(roles.QUEUE, worker="new").claim()
            server.call("ACL", "SETUSER", "worker", f"<{roles.PASSWORD}")
            assert [one.verdict for one in await queue.done(first)] == [Verdict.DONE]
            (third,) = await queue.claim()
            server.call("CLIENT", "KILL", "USER", "worker", "SKIPME", "yes")
            assert [one.verdict for one in await new.queue(roles.QUEUE).done(second)] == [Verdict.DONE]
            with pytest.raises(StoreMisused, match="refuses this user and password"):
                async with asyncio.timeout(PATIENCE):
                    await queue.done(third)
            await new.queue(roles.QUEUE).release_worker("old", Reason.INTERRUPTED)
            assert len(await new.queue(roles.QUEUE, worker="new").claim(5)) == 2


async def test_the_error_names_a_user_that_is_removed(server: Server) -> None:
    roles.give(server, "worker", roles.documented("worker"))
    async with open_server(roles.url(server, "worker")) as store:
        await store.queue(roles.QUEUE).enqueue(b"x")
        server.call("ACL", "DELUSER", "worker")

        async def is_reported() -> bool:
            try:
                await store.queue(roles.QUEUE).enqueue(b"y")
            except StoreMisused as error:
                return "password" in str(error)
            return False

        await eventually(is_reported)


def test_the_document_has_no_right_that_a_server_does_not_know(server: Server) -> None:
    for role in roles.ROLES:
        for right in roles.documented(role):
            assert right.startswith("+")
            try:
                server.call("ACL", "SETUSER", "probe", right)
            except ReplyError as error:
                pytest.fail(f"{right}: {error}")


_STORES_AGAIN = ["hset", "zadd", "hincrby", "rpush", "lpush", "hdel", "zrem", "ltrim", "del", "pexpire"]


@pytest.mark.parametrize("missing", _STORES_AGAIN)
async def test_a_worker_without_one_right_to_write_takes_no_item_from_its_place(
    server: Server, missing: str
) -> None:
    roles.give(server, "worker", [right for right in roles.documented("worker") if right != f"+{missing}"])
    async with open_server(server.url) as admin:
        await admin.queue("mine").enqueue_many(["a", claimq.NewItem("b", client="c")])
        settings = patient(roles.url(server, "worker"), retry_for=0.5)
        async with claimq.connect(settings=settings) as store:
            with pytest.raises(StoreMisused, match=f"docs/acl.md.*{missing.upper()}"):
                await store.queue("mine").claim(2, wait=0)
        assert sorted(item.text for item in await admin.queue("mine").peek(9)) == ["a", "b"]


@pytest.mark.servers("valkey")
@pytest.mark.parametrize(
    ("durability", "right"), [(Durability.REPLICATED, "+wait"), (Durability.FSYNCED, "+waitaof")]
)
async def test_who_may_not_wait_for_a_replica_enqueues_nothing(
    server: Server, durability: Durability, right: str
) -> None:
    documented = roles.documented("producer")
    roles.give(server, "producer", documented)
    async with open_queue(server.url, roles.QUEUE) as opened:
        await opened.set_policy(Policy(durability=durability, appendfsync_always=True))
    settings = patient(roles.url(server, "producer"), retry_for=0.5)
    async with claimq.connect(settings=settings) as store:
        queue = store.queue(roles.QUEUE)
        before = contents(server)
        with pytest.raises(StoreMisused, match="the user may not do this"):
            await queue.enqueue("refused")
        assert changes(before, contents(server)) == {}
        roles.give(server, "producer", [*documented, right])
        missing = "not confirmed in" if right == "+wait" else "needs appendonly yes"
        with pytest.raises(NotReplicated, match=missing):
            await queue.enqueue("stored")
        assert await queue.length() == 1
