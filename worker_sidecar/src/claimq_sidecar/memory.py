"""Limits the memory of request bodies and responses. A request that does not fit waits in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

SMALL: Final = 64 * 1024
"""Bodies up to this size have their own budget, so that large ones do not delay verdicts and renewals."""
BODY_FACTOR: Final = 4
"""Memory of a body by its size, until its response: the body, its payloads, and the command to the store."""
TOKEN_BYTES: Final = 256
"""Each token that a session takes over counts as at least this many bytes of a body: it becomes a claim in flight."""
CLAIM_FACTOR: Final = 6
"""Memory of claimed payloads by their size, while they are received and the response is built."""
REPLY_FACTOR: Final = 3
"""Memory of claimed payloads by their size, after they were received."""
LEAST_MEMORY: Final = "72Mi"
_BASE: Final = 64 * 1024 * 1024
_SMALL_BODIES: Final = 8 * 1024 * 1024
_LONGEST_BODY: Final = 16 * 1024 * 1024
_LONGEST_ITEM: Final = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """Divides a memory limit, in bytes, among bodies and responses. Pure. A test sends the worst input to a sidecar in
    a cgroup to check the factors."""

    memory: int

    @property
    def room(self) -> int:
        """The limit minus what the process needs with a thousand connections."""
        return self.memory - _BASE

    @property
    def longest_body(self) -> int:
        """The highest limit on a body that may be set."""
        return self.room // 12

    @property
    def usual_body(self) -> int:
        """The default limit on a body."""
        return min(self.longest_body, _LONGEST_BODY)

    @property
    def bodies(self) -> int:
        """The budget for all bodies that are not small."""
        return self.room // 3

    @property
    def largest_item(self) -> int:
        """The largest item to claim. The manifest's rule for ``maxPayload`` stays below half of it; bare payloads, and
        items that were enqueued under another limit, may be larger.
        """
        return min(self.room // 16, _LONGEST_ITEM)

    @property
    def claims(self) -> int:
        """The budget for claims. Claims that wait at the server have a second one of this size."""
        return self.room // 8

    @property
    def lines(self) -> int:
        """The budget for lines of streams that their clients have not read yet."""
        return self.room // 8

    @property
    def send_buffers(self) -> int:
        """The budget for larger send buffers of streams."""
        return self.room // 32


class Budget:
    """A number of bytes that is reserved in the order of requests."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int, within: float) -> int:
        """Reserves ``size`` bytes, at most the whole budget. Returns 0 if they are not free ``within`` seconds."""
        size = max(1, min(size, self._total))
        if not self._line and self._used + size <= self._total:
            self._used += size
            return size
        if within <= 0:
            return 0
        turn = asyncio.get_running_loop().create_future()
        waiting = size, turn
        self._line.append(waiting)
        try:
            await asyncio.wait({turn}, timeout=within)
        finally:
            if turn.done():
                if (task := asyncio.current_task()) is not None and task.cancelling():
                    self.give(size)
            else:
                self._line.remove(waiting)
                self.give(0)
        return size if turn.done() else 0

    def give(self, size: int) -> None:
        """Releases bytes for the requests that wait."""
        self._used -= size
        while self._line and self._used + self._line[0][0] <= self._total:
            next_size, turn = self._line.popleft()
            self._used += next_size
            turn.set_result(None)


class Share:
    """The bytes that one request has reserved; ``end`` releases them."""

    def __init__(self) -> None:
        self._taken: list[tuple[Budget, int]] = []
        self._kept_for = 0
        self._has_ended = False

    @property
    def size(self) -> int:
        """The bytes that are reserved."""
        return sum(size for _, size in self._taken)

    async def take(self, budget: Budget, size: int, within: float) -> bool:
        """Reserves more; false if it is not free ``within`` seconds."""
        reserved = await budget.take(size, within)
        if reserved:
            self._taken.append((budget, reserved))
        return reserved > 0

    def shrink(self, size: int) -> None:
        """Releases all but ``size`` bytes."""
        remaining: list[tuple[Budget, int]] = []
        for budget, size_taken in self._taken:
            keep = min(size_taken, size)
            size -= keep
            budget.give(size_taken - keep)
            if keep:
                remaining.append((budget, keep))
        self._taken = remaining

    def keep_for(self, work: asyncio.Future[Any]) -> None:
        """Keeps the bytes reserved after ``end`` until this work has ended, which continues after its request."""
        self._kept_for += 1
        work.add_done_callback(self._end_work)

    def _end_work(self, _: object) -> None:
        self._kept_for -= 1
        if self._has_ended:
            self.end()

    def end(self) -> None:
        """Releases everything. More may be reserved after it, unless work goes on."""
        self._has_ended = True
        if not self._kept_for:
            self.shrink(0)


class Bodies:
    """The budgets for request bodies: one for small bodies, one for all others."""

    def __init__(self, total: int) -> None:
        self._small = Budget(_SMALL_BODIES)
        self._large = Budget(total)

    async def take(self, share: Share, length: int, within: float) -> bool:
        """Reserves memory for a body of ``length`` bytes; false if it is not free ``within`` seconds."""
        return await share.take(self._small if length <= SMALL else self._large, length * BODY_FACTOR, within)
