"""Tokens of a call, grouped by worker: one script call reads each worker's claims together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from claimq.model import Claim
from claimq.tokens import read_token

BATCH = 1000
"""Items or claims that one script call may handle, so that none blocks the server for long."""

Claims = Claim | str | Iterable[Claim | str]


@dataclass(slots=True)
class TokenGroups:
    """Tokens of one call, grouped by worker as the scripts read them. A token that is no token, or comes
    twice, is left out."""

    tokens: list[str]
    ids: dict[str, str]
    sent: list[str]
    words: list[str | int]

    @classmethod
    def of(cls, claims: Claims) -> TokenGroups:
        """Groups claims and tokens in the order in which they were given."""
        listed = [claims] if isinstance(claims, (Claim, str)) else list(claims)
        ids: dict[str, str] = {}
        tokens: list[str] = []
        by_worker: dict[str, list[str]] = {}
        for claim in listed:
            if isinstance(claim, Claim):
                token = claim.token
                ids[token] = claim.item.id
            else:
                token = claim
            tokens.append(token)
            if parts := read_token(token):
                by_worker.setdefault(parts.worker, []).append(token)
        sent: list[str] = []
        words: list[str | int] = [len(by_worker)]
        for worker, own in by_worker.items():
            unique = list(dict.fromkeys(own))
            words += [worker, len(unique), *unique]
            sent += unique
        return cls(tokens, ids, sent, words)

    def later(self, said: Sequence[str]) -> TokenGroups:
        """The tokens for which a call had no room, of bytes or items: they are held, and the next call goes on."""
        return TokenGroups.of(
            [token for token, verdict in zip(self.sent, said, strict=True) if verdict == "later"]
        )

    @classmethod
    def batches(cls, claims: Claims) -> Iterable[TokenGroups]:
        """The same in calls of at most :data:`BATCH` claims."""
        listed = [claims] if isinstance(claims, (Claim, str)) else list(claims)
        for start in range(0, len(listed), BATCH):
            yield cls.of(listed[start : start + BATCH])
