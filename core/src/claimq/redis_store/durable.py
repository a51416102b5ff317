"""Waits until replicas have the writes of a script, for queues whose ``durability`` requires it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from redis.asyncio import RedisCluster
from redis.exceptions import AskError, MovedError, TryAgainError

from claimq.errors import StoreMisused
from claimq.redis_store.clients.cluster_client import ClusterClient
from claimq.redis_store.clients.opening import is_cluster, plain, together
from claimq.redis_store.connection import Connection
from claimq.redis_store.faults import is_unknown_script, translate
from claimq.redis_store.keys import absent_key
from claimq.redis_store.scripts import Arg, script

LONGEST_WAIT = 2.0
"""Longest wait for a replica, in seconds; at most four fifths of the reply timeout."""
_WAITS: dict[str, tuple[str | int, ...]] = {"replicated": ("WAIT",), "fsynced": ("WAITAOF", 1)}
_WANTED = re.compile(rb"\|(replicated|fsynced):([0-9]{1,2})$")


async def run_durably(
    connection: Connection, name: str, keys: Sequence[str], args: Sequence[Arg], *, use: str = "calls"
) -> tuple[Any, str]:
    """Runs a mutating script. Returns its reply, and a message if the required replicas did not confirm the write or
    the server refused to wait for them; the message is "" otherwise.

    WAIT waits for the last write of its own connection. Therefore, when the reply says that the queue requires
    replicas, the script is sent again with the same identity, together with WAIT. If it has run, it only writes its
    kept reply again; if a failover lost it, it runs again. Later calls of this script on these queues are sent
    together with WAIT from the start.
    """
    kind = (name, *keys)  # verdicts of a queue may need no replica where its new items do
    durability = connection.durable.get(kind)
    if durability is None:
        reply = await connection.run(name, keys, args, use=use)
        durability = _wanted(reply)
        if durability is None:
            return reply, ""
        connection.durable[kind] = durability
    level, replicas = durability
    wait = (
        *_WAITS[level],
        replicas,
        round(min(LONGEST_WAIT, connection.settings.reply_timeout * 0.8) * 1000),
    )

    async def call(client: Any) -> list[Any]:
        return await _call_and_wait(client, name, keys, args, wait)

    reply, confirmed = await connection.retry(call, doing=name, use=use)
    if (now := _wanted(reply)) != durability:  # the policy has changed
        connection.durable.pop(kind, None)
        return await run_durably(connection, name, keys, args, use=use) if now else (reply, "")
    missing = _missing(level, replicas, wait, confirmed)
    return reply, missing and f"{name}: the primary has carried it out, but it is not confirmed{missing}"


def _missing(level: str, replicas: int, wait: Sequence[str | int], confirmed: Any) -> str:
    """What the reply to WAIT says is missing; "" for nothing."""
    if isinstance(confirmed, Exception):
        refusal = translate(confirmed, doing=str(wait[0]))
        return f": the server refused {refusal}, and repeat an enqueue with the same ids"
    *primary, on_replicas = confirmed if isinstance(confirmed, list) else [confirmed]
    if all(primary) and on_replicas >= replicas:
        return ""
    replicas_text = "a replica" if replicas == 1 else f"{replicas} replicas"
    has = "has" if replicas == 1 else "have"
    safe = (
        f"{replicas_text} {has} it"
        if level == "replicated"
        else f"it is on the disks of the primary and of {replicas_text}"
    )
    return (
        f" in {wait[-1]} ms that {safe}; check the server's replicas, and repeat an enqueue with the same ids"
    )


async def _call_and_wait(
    client: Any, name: str, keys: Sequence[str], args: Sequence[Arg], wait: Sequence[str | int]
) -> list[Any]:
    """Sends the script and WAIT on one connection; returns both replies. That to WAIT may be the server's refusal: the
    script has run then, so it is no error of the call."""
    lua = script(name)
    named = [*keys, absent_key(keys[0])] if is_cluster(client) else list(keys)
    for _ in range(2):
        replies = await _together(client, keys[0], ["EVALSHA", lua.sha, len(named), *named, *args], wait)
        error = next((reply for reply in replies if isinstance(reply, Exception)), None)
        if error is None:
            return replies
        if not (is_unknown_script(error) or isinstance(error, MovedError | AskError)):
            if error is replies[1] and isinstance(translate(error, doing=name), StoreMisused):
                return replies
            raise error
        # This follows a slot that has moved.
        await plain(client, "EVAL", lua.text, len(named), *named, *args)
    raise TryAgainError("TRYAGAIN")


async def _together(client: Any, key: str, first: Sequence[Arg], second: Sequence[str | int]) -> list[Any]:
    if isinstance(client, ClusterClient):
        return await client.together(key, first, second)
    if isinstance(client, RedisCluster):
        cluster: Any = client
        await cluster.initialize()
        pipe = cluster.pipeline()
        pipe.execute_command(*first)
        pipe.execute_command(*second, target_nodes=[cluster.get_node_from_key(key)])
        return list(await pipe.execute(raise_on_error=False, allow_redirections=False))
    return await together(client, first, second)


def _wanted(reply: Any) -> tuple[str, int] | None:
    """The durability that a reply asks its caller to wait for, and the number of replicas; None for no wait."""
    match = _WANTED.search(reply[1]) if len(reply) > 1 and isinstance(reply[1], bytes) else None
    return None if match is None else (match[1].decode(), int(match[2]))
