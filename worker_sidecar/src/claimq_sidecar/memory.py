"""Memory that request bodies and replies may take at the same time: what does not fit waits its turn."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

SMALL: Final = 64 * 1024
"""Bodies up to this have room of their own, so that no large one holds up verdicts and renewals."""
BODY_FACTOR: Final = 4
"""Times its size that a body takes until it is answered: itself, its payloads, and the command to the store."""
CLAIM_FACTOR: Final = 6
"""Times their size that claimed payloads take: as they come from the store, and as the reply is built and sent."""
REPLY_FACTOR: Final = 3
"""The same once they are there."""
LEAST_MEMORY: Final = "72Mi"
_BASE: Final = 64 * 1024 * 1024
_SMALL_BODIES: Final = 8 * 1024 * 1024
_LONGEST_BODY: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a limit on memory, in bytes, leaves for bodies and replies: pure. The factors are measured with the worst
    input there is: the test that sends it to a sidecar in a cgroup is their proof."""

    memory: int

    @property
    def room(self) -> int:
        """All but what a sidecar with a thousand connections takes itself."""
        return self.memory - _BASE

    @property
    def longest_body(self) -> int:
        """The longest body that may be allowed."""
        return self.room // 12

    @property
    def usual_body(self) -> int:
        """The longest body unless the settings say otherwise."""
        return min(self.longest_body, _LONGEST_BODY)

    @property
    def bodies(self) -> int:
        """What all larger bodies may take at once."""
        return self.room // 3

    @property
    def claims(self) -> int:
        """What claims may take at once; as much again is for those that wait on the server."""
        return self.room // 8


class Budget:
    """A number of bytes, given in shares, in the order of asking."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._used = 0
        self._line: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def take(self, size: int, within: float) -> int:
        """Takes ``size`` bytes (all there are, if it is more than that); 0 if there is no room ``within`` seconds."""
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
        """Gives back what was taken, to those that wait for it."""
        self._used -= size
        while self._line and self._used + self._line[0][0] <= self._total:
            taken, turn = self._line.popleft()
            self._used += taken
            turn.set_result(None)


class Share:
    """What one request has of budgets; ``end`` gives all of it back."""

    def __init__(self) -> None:
        self._taken: list[tuple[Budget, int]] = []

    @property
    def size(self) -> int:
        """The bytes that it has now."""
        return sum(taken for _, taken in self._taken)

    async def take(self, budget: Budget, size: int, within: float) -> bool:
        """Takes more; false if there is no room ``within`` seconds."""
        taken = await budget.take(size, within)
        if taken:
            self._taken.append((budget, taken))
        return taken > 0

    def shrink(self, size: int) -> None:
        """Keeps ``size`` bytes at most."""
        kept: list[tuple[Budget, int]] = []
        for budget, taken in self._taken:
            keep = min(taken, size)
            size -= keep
            budget.give(taken - keep)
            if keep:
                kept.append((budget, keep))
        self._taken = kept

    def end(self) -> None:
        """Gives all of it back."""
        self.shrink(0)


class Bodies:
    """Room for request bodies: the small ones have their own."""

    def __init__(self, total: int) -> None:
        self._small = Budget(_SMALL_BODIES)
        self._large = Budget(total)

    async def take(self, share: Share, length: int, within: float) -> bool:
        """Room for a body of ``length`` bytes; false if there is none ``within`` seconds."""
        return await share.take(self._small if length <= SMALL else self._large, length * BODY_FACTOR, within)
