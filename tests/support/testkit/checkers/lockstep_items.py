"""The part of lockstep that is about one item by its id."""

from __future__ import annotations

from abc import abstractmethod

from claimq.model import Claim
from testkit.checkers.lockstep_failed import FailedItemsWorld
from testkit.checkers.model_item import ModelItem


class ItemsWorld(FailedItemsWorld):
    """Finds and claims one item, on the server and on the model."""

    @abstractmethod
    def compare_claims(
        self, name: str, worker: str, claims: list[Claim], expected: list[tuple[str, ModelItem]]
    ) -> None:
        """What the server handed out is what the model did."""

    def _places(self, name: str, wanted: str) -> dict[str, list[ModelItem]]:
        """The items of this id in each state, in order."""
        model = self.models[name]
        places = {
            "main": [item for items in model.lists.values() for item in items],
            "busy": [held.item for held in model.busy.values()],
            "delayed": [item for _, item in model.delayed],
            "failed": [item for _, item in model.failed.values()],
        }
        return {state: [item for item in items if item.id == wanted] for state, items in places.items()}

    def find(self, name: str, wanted: str) -> None:
        """Where an item is."""
        states = {state for state, items in self._places(name, wanted).items() if items}
        found = self.run(self.queue(name).find(wanted))
        assert (found.state if found else None) in (states or (None,))

    def claim_item(self, name: str, worker: str, wanted: str) -> None:
        """The first one that is delayed, else the first one in main of one client."""
        places = self._places(name, wanted)
        waiting = places["delayed"][:1] or places["main"]
        claim = self.run(self.queue(name, worker).claim_item(wanted))
        if claim is None:
            assert waiting == []
            return
        chosen = next(item for item in waiting if item.client == (claim.item.client or "-"))
        expected = self.models[name].claim(worker, 1, claim.token[-8:], once=True, chosen=chosen)
        self.compare_claims(name, worker, [claim], expected)
