"""A client whose queues' clocks stand still: time is what the test says, to the millisecond.

A queue's clock never runs back: it is at least `seen_at`. So with an offset that puts the server's clock far into
the past, a script sees exactly `seen_at`. Both are in the queue's stats, which this client sets before every script.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import redis
import redis.asyncio

from claimq.redis_store.scripts import script

FAR_BACK_MS = -(10**13)
BEGIN_MS = 10**12
"""An instant in 2001: before the server's time, so that offsets are negative and the scripts do not take them off."""
LEAP = """
    local time = redis.call('TIME')
    local offset = ARGV[1] - time[1] * 1000 - math.floor(time[2] / 1000)
    redis.call('HSET', KEYS[1], 'clock_offset', offset, 'seen_at', ARGV[2])
"""
REPEATABLE = ("enqueue", "claim", "done", "done_claim", "done_enqueue", "give_back", "renew")


class FrozenClock:
    """Stands for a `redis.asyncio.Redis` in `claimq.connect(client=...)`. `now`: queue name -> its instant in ms."""

    def __init__(self, client: "redis.asyncio.Redis", **now: int) -> None:
        self._client: Any = client
        self.now = now
        self._seen_before: dict[str, int] = {}
        self.sends_twice = False
        """Every call that may be repeated is sent again, as after a lost reply."""
        self.differing: list[str] = []
        """Calls whose repetition was answered otherwise."""
        self._repeatable = {script(name).sha: name for name in REPEATABLE}

    def move(self, name: str, milliseconds: int, *, gap: bool = False) -> None:
        """Moves a queue's clock forward. With `gap`, no call reaches the queue before the next one, which comes within
        a few milliseconds after that instant."""
        assert milliseconds >= 0
        if gap:
            self._seen_before[name] = self.now[name]
        self.now[name] += milliseconds

    async def evalsha(self, sha: str, count: int, *words: Any) -> Any:
        """As the client's, at the frozen instant."""
        reply = await self._frozen(lambda pipe: pipe.evalsha(sha, count, *words))
        if self.sends_twice and sha in self._repeatable and not isinstance(reply, Exception):
            again = await self._frozen(lambda pipe: pipe.evalsha(sha, count, *words))
            if again != reply:
                self.differing.append(f"{self._repeatable[sha]}: {reply!r}, then {again!r}")
        return reply

    async def execute_command(self, *words: Any) -> Any:
        """As the client's, a script at the frozen instant. Its text goes first and alone: a server reads 16 KiB at
        once, so between the setting of the clock and a script of that size another client's call could set it too."""
        if words[0] == "EVAL":
            sha = await self._client.script_load(words[1])
            return await self._frozen(lambda pipe: pipe.evalsha(sha, *words[2:]))
        return await self._client.execute_command(*words)

    def pipeline(self, *, transaction: bool) -> "FrozenPipeline":
        """As the client's, at the frozen instant."""
        assert not transaction
        return FrozenPipeline(self)

    def frozen_pipeline(self) -> Any:
        """A pipeline of the client that begins with setting the clocks. A transaction, since a call of many bytes
        arrives later: another one in between would move the clocks on."""
        pipe = self._client.pipeline(transaction=True)
        self.set_clocks(pipe, self._seen_before)
        return pipe

    def set_clocks(self, pipe: Any, seen_before: Mapping[str, int]) -> None:
        """Adds a command for each queue: a script moves the clock on that it has found."""
        for name, now in self.now.items():
            stats = f"cq:{{{name}}}:stats"
            if (seen := seen_before.get(name)) is None:
                pipe.hset(stats, mapping={"clock_offset": FAR_BACK_MS, "seen_at": now})
            else:
                pipe.eval(LEAP, 1, stats, now, seen)

    async def _frozen(self, call: Callable[[Any], Awaitable[Any] | Any]) -> Any:
        pipe = self.frozen_pipeline()
        call(pipe)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
        self.note_call(replies)
        reply: Any = replies[-1]
        if isinstance(reply, Exception):
            raise reply
        return reply

    def note_call(self, replies: Sequence[Any]) -> None:
        """Ends a gap with the first call that the server has not refused (it may not know a script yet)."""
        if not any(isinstance(reply, Exception) for reply in replies):
            self._seen_before.clear()


class FrozenPipeline:
    """Stands for a pipeline of `redis.asyncio.Redis`."""

    def __init__(self, clock: FrozenClock) -> None:
        self._clock = clock
        self._calls: list[tuple[Any, ...]] = []

    def execute_command(self, *words: Any) -> None:
        """Adds a command."""
        self._calls.append(words)

    async def execute(self, *, raise_on_error: bool) -> list[Any]:
        """Sends the commands; returns their replies, errors among them."""
        assert not raise_on_error
        pipe = self._clock.frozen_pipeline()
        for number, words in enumerate(self._calls):
            if number:
                self._clock.set_clocks(pipe, {})
            pipe.execute_command(*words)
        replies: list[Any] = await pipe.execute(raise_on_error=False)
        self._clock.note_call(replies)
        clocks = len(self._clock.now)
        return replies[clocks :: clocks + 1]
