"""Ends claims and claims the next items in one step. Only the sidecar needs it; it is not part of the public API."""

from __future__ import annotations

from typing import Any

from claimq import arguments
from claimq.errors import NotReplicated
from claimq.model import Claim, Outcome
from claimq.queue.claiming import Claimed, Claiming, Wait
from claimq.queue.queue_part import QueuePart, with_operations_of
from claimq.queue.settling import Settling, outcomes_of
from claimq.queue.token_groups import BATCH, Claims, TokenGroups
from claimq.redis_store.durable import run_durably
from claimq.redis_store.scripts import Arg


def next_claims(queue: QueuePart) -> NextClaims:
    """The operation for a :class:`claimq.ReliableQueue`, on its connection and under its worker's name."""
    return with_operations_of(NextClaims, queue)


class NextClaims(Claiming, Settling):
    """Made by :func:`next_claims`."""

    @property
    def waits_for_copies(self) -> bool:
        """Whether the policy made the last call wait until the server's copies had its verdicts."""
        return ("done_claim", self._keys.main) in self._connection.durable

    @property
    def has_rate(self) -> bool:
        """Whether a limit of the queue was a rate when the connection claimed last: nothing should be claimed ahead."""
        return self._connection.rated.get(self._keys.main, False)

    async def claim_after(self, last: Claimed | None, count: int, wait: Wait) -> Claimed:
        """As :meth:`claim`, with all that the reply says. ``last``: what a claim has just found that may be continued;
        this one then begins with a wait. None: it asks first."""
        return await self._claim(count, wait, after=last)

    async def done_and_claim(self, claims: Claims, count: int = 1) -> tuple[list[Outcome], list[Claim]]:
        """Ends claims as :meth:`done` does, and claims up to ``count`` items without waiting. Both are one atomic step.
        Lost claims do not keep it from claiming.

        Retried as a verdict. Raises StoreUnavailable (the outcome is unknown, and what it claimed goes back to the
        head of main once the server answers), StoreMisused, NotReplicated (its ``result`` is what this returns).
        One round trip; costs as both.
        """
        arguments.count("count", count, least=1, most=BATCH)
        groups = part = TokenGroups.of(claims)
        by_token: dict[str, str] = {}
        missing = ""
        read = self._reading("done", keeps=False)
        while True:
            reply, nonce, unconfirmed = await read.reply(self._end_and_claim(part, count))
            missing = missing or unconfirmed
            verdicts = reply[1].split(b" ", 7)[7].partition(b"|")[0].decode().split()
            by_token |= zip(part.sent, verdicts, strict=True)
            part = part.later(verdicts)
            if not part.sent:  # until then the call claims nothing
                break
        claimed = self._read_claims(reply, nonce).claims
        outcomes = outcomes_of(groups, [by_token[token] for token in groups.sent])
        if missing:
            raise NotReplicated(missing, (outcomes, claimed))
        return outcomes, claimed

    async def _end_and_claim(self, groups: TokenGroups, count: int) -> tuple[list[Any], str, str]:
        """One call; returns its reply and nonce, and a message if replicas did not confirm it."""
        missing = ""

        async def call(words: list[Arg]) -> list[Any]:
            nonlocal missing
            reply, missing = await run_durably(
                self._connection,
                "done_claim",
                [self._keys.main],
                [*words, *groups.words, *self._limit()],
                use="verdicts",
            )
            return list(reply)

        return *(await self._run_claim(call, count)), missing
