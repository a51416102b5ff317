"""Claiming one item by its id, for people and programs that act on this item."""

from __future__ import annotations

from typing import Any

from claimq.arguments import text
from claimq.errors import ItemOutOfReach
from claimq.model import Claim, State
from claimq.queue.claiming import Claiming
from claimq.queue.inspecting import Inspecting, Place
from claimq.redis_store.scripts import Arg

_ATTEMPTS = 5


class ClaimingItems(Claiming, Inspecting):
    """Moves a chosen item from main or delayed to busy."""

    async def claim_item(self, id: str) -> Claim | None:  # noqa: A002 - as in find()
        """Claims the item of this id, wherever it waits in main or delayed, also while the queue is paused; None if it
        is in neither.

        What happens to the item is then up to the verdict: ``drop`` removes it, ``fail(permanent=True)`` moves it to
        failed, ``unclaim`` makes it the next one, ``requeue`` the last one, ``done(enqueue=)`` moves it to another
        queue. Until then it is a claim like any other: after a crash of this process its lease decides.

        Raises ItemOutOfReach if more than 100,000 items are between it and both ends of its list in main, otherwise as
        :meth:`claim`. Costs as much as :meth:`find`; if items move during the search, it is repeated up to four times.
        """
        text("id", id)
        for _ in range(_ATTEMPTS):
            for state in (State.DELAYED, State.MAIN):
                if place := await self._place_in(state, id):
                    break
            else:
                return None
            reply, nonce = await self._claim_at(place, state, id)
            if reply[0] == b"FAR":
                raise ItemOutOfReach(
                    f"{reply[1]:,} items of {self.name} are between the item {id} and the nearer end of its list: to "
                    "take it out would block the server; try again when fewer items wait"
                )
            if reply[0] != b"MOVED":
                return next(iter(self._read_claims(reply, nonce).claims), None)
        return None

    async def _claim_at(self, place: Place, state: State, wanted: str) -> tuple[list[Any], str]:
        where: list[Arg] = [wanted, state.value, place.client, place.position]

        async def call(words: list[Arg]) -> list[Any]:
            return list(await self._connection.run("claim_item", [self._keys.main], [*words, *where]))

        return await self._run_claim(call, 1)
