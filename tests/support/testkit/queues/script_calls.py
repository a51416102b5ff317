"""Single calls of scripts, for tests of what one call does: the library makes more where there is more to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from claimq.reliable_queue import ReliableQueue
    from testkit.servers.server import Server


async def run(queue: ReliableQueue, name: str, *args: Any) -> list[Any]:
    """One call of a script, as it answers."""
    reply: list[Any] = await queue._connection.run(name, [queue._keys.main], args)
    return reply


async def call(queue: ReliableQueue, name: str, *args: Any) -> list[Any]:
    """One call of a script that has an identity."""
    with queue._connection.lanes.new_call() as identity:
        return await run(queue, name, *identity, *args)


async def claim_once(queue: ReliableQueue, server: Server, count: int) -> list[Any]:
    """One call of the script that claims, on the queue "q", from which something was claimed before."""
    incarnation = server.call("HGET", "cq:{q}:stats", "incarnation")
    return await call(queue, "claim", queue.worker, count, "nonce-12", incarnation)
