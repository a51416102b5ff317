"""How simulated items differ beside when they arrive and how long they take: their client, their key and their cost."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import NamedTuple


class Label(NamedTuple):
    """The client, the key and the cost of one item. None: it has none."""

    client: int | None
    key: int | None
    cost: int


@dataclass(frozen=True, slots=True)
class Mix:
    """What labels are drawn from. ``clients``: the weight of each. ``keys``: how many there are, and ``keyed`` is the
    share of items with one of them. ``costs``: each as likely as another."""

    clients: tuple[float, ...] = ()
    keys: int = 0
    keyed: float = 1.0
    costs: tuple[int, ...] = (1,)

    def draw(self, count: int, seed: int) -> list[Label]:
        """Labels of so many items. The same seed gives the same labels."""
        rng = random.Random(f"labels/{seed}")
        return [self._label(rng) for _ in range(count)]

    def _label(self, rng: random.Random) -> Label:
        client = rng.choices(range(len(self.clients)), self.clients)[0] if self.clients else None
        key = rng.randrange(self.keys) if self.keys and rng.random() < self.keyed else None
        return Label(client, key, rng.choice(self.costs))
