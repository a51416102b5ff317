"""Which items of a queue are claimed next, as plain Python: by the turns of clients, or as the server chose."""

from collections import Counter, deque
from collections.abc import Sequence

from testkit.checkers.model_held_back import UnderPolicy
from testkit.checkers.model_item import Held, ModelItem, first_of


class Turns(UnderPolicy):
    """The items that wait and are in progress. By count the turns are exact. By time, and while limits hold per client,
    the order of the clients is the server's to choose."""

    def __init__(self, now: int) -> None:
        """No item."""
        super().__init__(now)
        self.ring: list[str] = []
        self.lists: dict[str, deque[ModelItem]] = {}
        """The waiting items of each client, by priority; first in, first out among equal ones."""
        self.passed: Counter[str] = Counter()
        self.delayed: list[tuple[int, ModelItem]] = []
        self.busy: dict[str, Held] = {}
        self.may_have_parked = False
        """Whether the server may have clients out of turn: then their order in the ring is open."""

    def waiting(self) -> int:
        """The length of main."""
        return sum(map(len, self.lists.values()))

    def in_claim_order(self) -> list[ModelItem]:
        """Main, in the order in which it would be claimed now."""
        ring = [*self.ring] if self.ring else ["-"]
        if "-" not in ring:
            ring.append("-")
        rows = [list(self.lists.get(client, ())) for client in ring]
        longest = max(map(len, rows), default=0)
        return [row[turn] for turn in range(longest) for row in rows if turn < len(row)]

    @property
    def has_exact_turns(self) -> bool:
        """Whether the documents leave no choice."""
        held = self.held_back
        is_parking = held.pauses.has_clients or held.has_client_limits(self.now)
        return self.policy.fairness.by == "count" and not is_parking

    def _take_in_turn(self, count: int, clients: Sequence[str]) -> list[ModelItem]:
        if not self.has_exact_turns:
            self.may_have_parked = True
            return self._take_of(clients)
        had_ring = bool(self.ring)
        got = [] if self.is_paused else self._take(count, len(clients))
        if had_ring:
            self.may_have_parked = not got and (self.may_have_parked or self.held_back.has_limits)
        return got

    def _take(self, want: int, started: int) -> list[ModelItem]:
        """``started``: how many the server let start, where it has a choice."""
        if want and self.lists.get("-") and self.ring and "-" not in self.ring:
            self.ring.append("-")
        got: list[ModelItem] = []
        for_itself = False
        while len(got) < want and not for_itself and any(self.lists.values()):
            client = self.ring[0] if self.ring else "-"
            for_itself = self._next_of(client).comes_alone
            surely, perhaps = self._fits(self._next_of(client), got)
            if (for_itself and got) or not (surely or (perhaps and len(got) < started)):
                break
            self.ring = self.ring[1:] + self.ring[:1]
            got.append(self._take_first(client))
        return got

    def _take_of(self, clients: Sequence[str]) -> list[ModelItem]:
        """The next items of these clients, if all may start now."""
        got: list[ModelItem] = []
        before = self.ring, {client: deque(items) for client, items in self.lists.items()}, self.passed.copy()
        for client in clients:
            if self.is_paused or not self.lists.get(client) or not self._fits(self._next_of(client), got)[1]:
                self.ring, self.lists, self.passed = before
                return []
            got.append(self._take_first(client))
        assert len(got) < 2 or not any(item.comes_alone for item in got)
        return got

    def _next_of(self, client: str) -> ModelItem:
        return first_of(self.lists[client], self.passed[client])[0]

    def _take_first(self, client: str) -> ModelItem:
        items = self.lists[client]
        chosen, self.passed[client] = first_of(items, self.passed[client])
        items.remove(chosen)
        if not items:
            self._forget(client)
        return chosen

    def _fits(self, item: ModelItem, before: Sequence[ModelItem], *scopes: str) -> tuple[bool, bool]:
        """Whether an item may start for sure, and perhaps, once those before do."""
        return self.held_back.fits(
            self.now, item, before, [held.item for held in self.busy.values()], *scopes
        )

    def has_startable(self, got: Sequence[ModelItem]) -> bool:
        """Whether a claim of these items might have had more. An item that comes alone ends a claim, and one that the
        limits of the queue do not let start."""
        heads = [self._next_of(client) for client, items in self.lists.items() if items]
        if got and any(item.comes_alone for item in heads):
            return False
        rooms = {item.client: self._fits(item, (), "client", "key") for item in heads}
        heads = [item for item in heads if rooms[item.client][1]]
        return any(rooms[item.client][0] for item in heads) and all(
            self._fits(item, (), "queue")[0] for item in heads
        )

    def _take_out(self, chosen: ModelItem) -> list[ModelItem]:
        """One item, wherever it waits."""
        self.delayed = [entry for entry in self.delayed if entry[1] is not chosen]
        for client, items in self.lists.items():
            if any(item is chosen for item in items):
                self.lists[client] = deque(item for item in items if item is not chosen)
                if len(items) == 1:
                    self._forget(client)
        return [chosen]

    def _forget(self, client: str) -> None:
        """A client has no items left."""
        self.ring = [one for one in self.ring if one != client]
        if client != "-":
            del self.passed[client]
