"""A client whose queues' clocks stand still: time is what the test says, to the millisecond.

A queue's clock never runs back: it is at least `seen_at`. So with an offset that puts the server's clock far into
the past, a script sees exactly `seen_at`. Both are in the queue's stats, which this client sets before every script.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import redis
import redis.asyncio

from claimq.redis_store.scripts import script

FAR_BACK_MS = -(10**13)
REPEATABLE = ("enqueue", "claim", "done", "done_claim", "done_enqueue", "give_back", "renew")


class FrozenClock:
    """Stands for a `redis.asyncio.Redis` in `claimq.connect(client=...)`. `now`: queue name -> its instant in ms."""

    def __init__(self, client: "redis.asyncio.Redis") -> None:
        self._client: Any = client
        self.now: dict[str, int] = {}
        self.sends_twice = False
        """Every call that may be repeated is sent again, as after a lost reply."""
        self.differing: list[str] = []
        """Calls whose repetition was answered otherwise."""
        self._repeatable = {script(name).sha: name for name in REPEATABLE}

    async def evalsha(self, sha: str, count: int, *words: Any) -> Any:
        """As the client's, at the frozen instant."""
        reply = await self._frozen(lambda pipe: pipe.evalsha(sha, count, *words))
        if self.sends_twice and sha in self._repeatable and not isinstance(reply, Exception):
            again = await self._frozen(lambda pipe: pipe.evalsha(sha, count, *words))
            if again != reply:
                self.differing.append(f"{self._repeatable[sha]}: {reply!r}, then {again!r}")
        return reply

    async def eval(self, text: str, count: int, *words: Any) -> Any:
        """As the client's, at the frozen instant."""
        return await self._frozen(lambda pipe: pipe.eval(text, count, *words))

    async def execute_command(self, *words: Any) -> Any:
        """As the client's."""
        reply: Any = await self._client.execute_command(*words)
        return reply

    def pipeline(self, *, transaction: bool) -> "FrozenPipeline":
        """As the client's, at the frozen instant."""
        assert not transaction
        return FrozenPipeline(self.frozen_pipeline)

    def frozen_pipeline(self) -> Any:
        """A pipeline of the client that begins with setting the clocks."""
        pipe = self._client.pipeline(transaction=False)
        for name, now in self.now.items():
            pipe.hset(f"cq:{{{name}}}:stats", mapping={"clock_offset": FAR_BACK_MS, "seen_at": now})
        return pipe

    async def _frozen(self, call: Callable[[Any], Awaitable[Any] | Any]) -> Any:
        pipe = self.frozen_pipeline()
        call(pipe)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
        reply: Any = replies[-1]
        if isinstance(reply, Exception):
            raise reply
        return reply


class FrozenPipeline:
    """Stands for a pipeline of `redis.asyncio.Redis`."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._calls: list[tuple[Any, ...]] = []

    def execute_command(self, *words: Any) -> None:
        """Adds a command."""
        self._calls.append(words)

    async def execute(self, *, raise_on_error: bool) -> list[Any]:
        """Sends the commands; returns their replies, errors among them."""
        assert not raise_on_error
        pipe = self._make()
        for words in self._calls:
            pipe.execute_command(*words)
        return list((await pipe.execute(raise_on_error=False))[-len(self._calls) :])
