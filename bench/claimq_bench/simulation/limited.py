"""A simulated queue with clients, keys and limits: the rules of the claim, one item at a time."""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from itertools import islice

from claimq.limits import Limit, Limits, LimitsNow, Per
from claimq_bench.simulation.mix import Mix
from claimq_bench.simulation.scope import Scope
from claimq_bench.simulation.traces import Trace
from claimq_bench.simulation.world import SLOT_BITS, SLOT_MASK, TICKS, PodSettings, Victims, World

_NEVER = 1e9
"""Seconds: after the end of every run."""
_SAMPLE = 64
"""Clients that a snapshot looks at."""
_LOOK_AGAIN = 30 * TICKS
"""A parked client gets a turn after so long in any case."""
_SOON = 15 * TICKS
"""How far a snapshot looks ahead for items that become due."""
_FADE = 0.97
"""What the mean cost keeps of itself with each item."""
_ONE_OF_KEY = Limit("one", busy=1, per=Per.KEY)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits that hold until so many seconds after the start, and the labels of the items. Raises ValueError for a
    limit that counts what no item has."""

    limits: Limits
    until: float = _NEVER
    mix: Mix = field(default_factory=Mix)

    def __post_init__(self) -> None:
        has = {Per.QUEUE: True, Per.CLIENT: bool(self.mix.clients), Per.KEY: bool(self.mix.keys)}
        for limit in self.limits:
            if not has[Per(limit.per)]:
                raise ValueError(
                    f"{limit.name} is per {limit.per}, and simulated items have none; use per=queue"
                )
            if limit.is_by_cost and max(self.mix.costs) == 1:
                raise ValueError(f"{limit.name} counts costs, and simulated items cost 1; use unit=items")

    def of(self, per: Per) -> Limits:
        """The limits of the queue, a client or a key. Without a bound per key that is 1."""
        limits = tuple(limit for limit in self.limits if limit.per is per)
        is_bounded = per is not Per.KEY or any(limit.busy for limit in limits)
        return limits if is_bounded else (*limits, _ONE_OF_KEY)


class LimitedWorld(World):
    """A queue whose items start when all limits let them. Clients take turns; an item whose key is at its limit is held
    outside of main until it may start."""

    def __init__(
        self, trace: Trace, pods: PodSettings, held_by: QueueLimits, *, seed: int, victims: Victims
    ) -> None:
        super().__init__(trace, pods, seed=seed, victims=victims)
        self._labels = held_by.mix.draw(len(self._arrivals), seed)
        self._held_by, self._until = held_by, round(held_by.until * TICKS)
        self._scopes: dict[tuple[Per, int | None], Scope] = {}
        self._main: dict[int | None, deque[int]] = {}
        """The items of each client in main."""
        self._turns: deque[int | None] = deque()
        self._parked: dict[int | None, int] = {}
        """When a client at its limit gets a turn again."""
        self._held: dict[int, list[int]] = {}
        """The items that are held for each key, in the order of arrival."""
        self._limited: dict[int, int] = {}
        """When the rates of a key let its first held item start."""
        self._ends: list[tuple[int, int]] = []
        """A heap of when items in progress end. An entry counts if it is that of ``_end_of``."""
        self._end_of: dict[int, int] = {}
        self._came_back: dict[int, int] = {}
        """When items came back that have been started."""
        self._mean_cost = 0.0

    # What a snapshot says ----------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """Items in main."""
        return sum(map(len, self._main.values()))

    @property
    def oldest_age(self) -> float | None:
        """Seconds since the oldest waiting item last came into the queue."""
        came = [self._came_back.get(items[0], self._arrivals[items[0]]) for items in self._main.values()]
        return (self._now - min(came)) / TICKS if came else None

    @property
    def due_soon(self) -> int:
        """Items that are held for the rate of their key, and may start soon: one of each key."""
        return sum(self._now < at <= self._now + _SOON for at in self._limited.values())

    @property
    def key_busy(self) -> int:
        """Items that are held for their keys."""
        return sum(map(len, self._held.values()))

    @property
    def next_due_in(self) -> float | None:
        """Seconds until the first of them may start."""
        return (min(self._limited.values()) - self._now) / TICKS if self._limited else None

    @property
    def is_over(self) -> bool:
        """Whether every item has arrived and is done."""
        return super().is_over and not self._main and not self.key_busy

    @property
    def limits(self) -> LimitsNow | None:
        """The limits that hold, as the queue's server reports them."""
        limits = self._held_by.limits
        if not limits or self._now >= self._until:
            return None
        cost = max(1.0, self._mean_cost) if any(limit.is_by_cost for limit in limits) else 1.0
        queue = self._scope(Per.QUEUE)
        rooms = queue.rooms(self._now, cost)
        named = {
            limit.name: rooms[limit.name]
            for limit in self._held_by.of(Per.QUEUE)
            if limit.rate is not None or limit.is_by_cost
        }
        room, wait = queue.room(self._now, cost), queue.next_start(self._now, round(cost)) - self._now
        clients = 0
        if of_client := self._held_by.of(Per.CLIENT):
            clients = sum(client is not None for client in self._main)
            of_clients = self._client_room(cost)
            named |= {limit.name: of_clients for limit in of_client}
            room = min(room, of_clients)
            if not of_clients and self._parked:
                wait = max(wait, min(self._parked.values()) - self._now)
        return LimitsNow(limits, room, wait / TICKS or None, named, clients, cost)

    def _client_room(self, cost: float) -> int:
        """How many items the clients may start: counted for the first of them, and estimated for the others."""
        room = seen = 0
        for client in islice(self._turns, _SAMPLE):
            if client is not None:
                free = self._scope(Per.CLIENT, client).room(self._now, cost)
                room, seen = room + min(len(self._main[client]), free), seen + 1
        if len(self._turns) > _SAMPLE:
            room = int(room / max(seen, 1) * len(self._turns))
        return room + len(self._main.get(None, ()))

    # What happens ------------------------------------------------------------------------------------------------

    def _work(self, until: int) -> None:
        self._note_returns()
        at = self._now
        while at <= until:
            self._settle(at)
            wake = self._start_items(at)
            at = min((then for then in self._instants(wake) if then > at), default=until + 1)

    def _instants(self, wake: int) -> list[int]:
        """When something may change next."""
        instants = [wake, self._until, *self._parked.values(), *self._limited.values()]
        instants += self._arrivals[self._next : self._next + 1]
        instants += [at for at, _ in (*self._returned[:1], *self._ends[:1])]
        return [*instants, self._free[0] >> SLOT_BITS] if self._free else instants

    def _settle(self, at: int) -> None:
        """Does what is due at this instant, except for starts."""
        if at >= self._until and self._held_by.limits:
            self._lift()
        while self._ends and self._ends[0][0] <= at:
            end, item = heappop(self._ends)
            if self._end_of.get(item) == end:
                self._end(item, at)
        while self._returned and self._returned[0][0] <= at:
            back, item = self._returned.pop(0)
            self._came_back[item] = back
            self._enter(item, at_head=True)
        while self._next < len(self._arrivals) and self._arrivals[self._next] <= at:
            self._enter(self._next)
            self._next += 1
        for client in [client for client, then in self._parked.items() if then <= at]:
            self._unpark(client)
        for key in [key for key, then in self._limited.items() if then <= at]:
            self._let_go(key, at)

    def _lift(self) -> None:
        self._held_by = QueueLimits((), mix=self._held_by.mix)
        self._scopes = {
            (per, name): Scope(self._held_by.of(per), scope.busy, scope.cost)
            for (per, name), scope in self._scopes.items()
        }
        for client in list(self._parked):
            self._unpark(client)

    def _start_items(self, at: int) -> int:
        """Free slots take items, client by client. Returns when the rates of the queue let the next one start
        (0: they do now)."""
        queue = self._scope(Per.QUEUE)
        while self._turns and self._free and self._free[0] >> SLOT_BITS <= at:
            client, key, cost = self._labels[item := self._main[self._turns[0]][0]]
            of_client = self._scope(Per.CLIENT, client) if client is not None else None
            if of_client and not of_client.room(at, cost):
                self._turns.popleft()
                is_full = of_client.is_full(cost)
                self._parked[client] = at + _LOOK_AGAIN if is_full else of_client.next_start(at, cost)
            elif key is not None and self._is_held(item, key, at):
                self._take_first()
                insort(self._held.setdefault(key, []), item)
                self._note_start_of(key, at)
            elif not queue.room(at, cost):
                return queue.next_start(at, cost)
            else:
                self._take_first()
                self._start(item, at)
                if self._turns and self._turns[0] == client:
                    self._turns.rotate(-1)
        return 0

    def _is_held(self, item: int, key: int, at: int) -> bool:
        """Whether its key is at a limit, or has an earlier item that is held."""
        held = self._held.get(key)
        return bool(held and held[0] < item) or not self._scope(Per.KEY, key).room(
            at, self._labels[item].cost
        )

    def _take_first(self) -> None:
        """Takes the first item of the client whose turn it is out of main."""
        client = self._turns[0]
        self._main[client].popleft()
        if not self._main[client]:
            del self._main[client]
            self._turns.popleft()

    def _start(self, item: int, at: int) -> None:
        end, slot = at + self._services[item], self._free[0] & SLOT_MASK
        heapreplace(self._free, (end << SLOT_BITS) | slot)
        self._item_of[slot] = item
        self._set_end(item, end)
        self._claimed += 1
        if item not in self._came_back:
            self.tally.waits.append(at - self._arrivals[item])
        _, key, cost = self._labels[item]
        for scope in self._scopes_of(item):
            scope.start(at, cost)
        kept = _FADE if self._mean_cost else 0.0
        self._mean_cost = kept * self._mean_cost + (1 - kept) * cost
        if key is not None:
            self._let_go(key, at)

    def _end(self, item: int, at: int) -> None:
        del self._end_of[item]
        client, key, cost = self._labels[item]
        for scope in self._scopes_of(item):
            scope.end(cost)
        if client in self._parked:
            self._unpark(client)
        if key is not None:
            self._let_go(key, at)

    def _set_end(self, item: int, end: int) -> None:
        self._end_of[item] = end
        heappush(self._ends, (end, item))

    def _enter(self, item: int, *, at_head: bool = False) -> None:
        client = self._labels[item].client
        if client not in self._main:
            self._main[client] = deque()
            self._turns.append(client)
        if at_head:
            self._main[client].appendleft(item)
        else:
            self._main[client].append(item)

    def _unpark(self, client: int | None) -> None:
        del self._parked[client]
        self._turns.append(client)

    def _let_go(self, key: int, at: int) -> None:
        """Returns the first held item of a key to main if it may start."""
        self._limited.pop(key, None)
        held = self._held.get(key)
        if held and self._scope(Per.KEY, key).room(at, self._labels[held[0]].cost):
            self._enter(held.pop(0), at_head=True)
        elif held:
            self._note_start_of(key, at)

    def _note_start_of(self, key: int, at: int) -> None:
        scope, cost = self._scope(Per.KEY, key), self._labels[self._held[key][0]].cost
        if not scope.is_full(cost) and not scope.room(at, cost):
            self._limited[key] = scope.next_start(at, cost)

    def _scope(self, per: Per, name: int | None = None) -> Scope:
        if (per, name) not in self._scopes:
            self._scopes[per, name] = Scope(self._held_by.of(per))
        return self._scopes[per, name]

    def _scopes_of(self, item: int) -> list[Scope]:
        client, key, _ = self._labels[item]
        names = ((Per.CLIENT, client), (Per.KEY, key))
        return [self._scope(Per.QUEUE), *(self._scope(per, name) for per, name in names if name is not None)]

    def _note_returns(self) -> None:
        """Items whose pod is gone are in progress until they come back."""
        for back, item in self._returned:
            if self._end_of.get(item) != back:
                self._set_end(item, back)
