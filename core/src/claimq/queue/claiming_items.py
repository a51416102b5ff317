"""Claiming one item by its id, for people and programs that act on this item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from claimq.arguments import text
from claimq.errors import ItemOutOfReach
from claimq.model import Claim, Located, State
from claimq.queue.claiming import Claiming
from claimq.queue.reading.finding import Finding, Place
from claimq.redis_store.scripts import Arg

_ATTEMPTS = 5


class ClaimingItems(Claiming, Finding):
    """Moves a chosen item from main or delayed to busy."""

    async def claim_item(
        self,
        id: str,  # noqa: A002 - as in find()
        *,
        located: Located | None = None,
        position: int = 0,
    ) -> Claim | None:
        """Claims the item of this id, wherever it waits in main or delayed, also while the queue is paused. None if it
        is in neither.

        What happens to the item is then up to the verdict: ``drop`` removes it, ``fail(permanent=True)`` moves it to
        failed, ``unclaim`` makes it the next one, ``requeue`` the last one, ``done(enqueue=)`` moves it to another
        queue. Until then it is a claim like any other: after a crash of this process its lease decides.

        ``located`` and ``position`` save the search: how the item was read from main or delayed a moment ago, and how
        many items of its client in main, or of delayed, were before it. An item that has left that state is not
        claimed.

        Raises ItemOutOfReach if more than 100,000 items are between it and both ends of its list in main, otherwise as
        :meth:`claim`. Costs as much as :meth:`find`; if items move during the search, it is repeated up to four times.
        """
        text("id", id)
        where = None
        if located is not None:
            where = located.state, Place(located.item.client or "-", position, b"", b"", b"")
        states = (State.DELAYED, State.MAIN) if located is None else (located.state,)
        for _ in range(_ATTEMPTS):
            where = where or await self._waiting_place(id, states)
            if where is None:
                return None
            (state, place), where = where, None
            reply, nonce = await self._claim_at(place, state, id)
            if reply[0] == b"FAR":
                raise ItemOutOfReach(
                    f"{reply[1]:,} items of {self.name} are between the item {id} and the nearer end of its list: to "
                    "take it out would block the server; try again when fewer items wait"
                )
            if reply[0] != b"MOVED":
                return next(iter(self._read_claims(reply, nonce).claims), None)
        return None

    async def _waiting_place(self, item_id: str, states: Iterable[State]) -> tuple[State, Place] | None:
        for state in states:
            if place := await self._place_in(state, item_id):
                return state, place
        return None

    async def _claim_at(self, place: Place, state: State, item_id: str) -> tuple[list[Any], str]:
        where: list[Arg] = [item_id, state.value, place.client, place.position]

        async def call(words: list[Arg]) -> list[Any]:
            return list(await self._connection.run("claim_item", [self._keys.main], [*words, *where]))

        return await self._run_claim(call, 1)
