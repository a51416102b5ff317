"""What every part of a queue stands on: its name, its keys, its connection, its worker's name."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from claimq.codec import check_name
from claimq.model import Claim
from claimq.redis_store.connection import Connection
from claimq.redis_store.keys import Keys
from claimq.tokens import read_token

BATCH = 1000
"""Items or claims that one script call may handle, so that none blocks the server for long."""

Claims = Claim | str | Iterable[Claim | str]


class QueuePart:
    """The common state of a queue's parts; make a :class:`claimq.ReliableQueue` instead."""

    def __init__(self, connection: Connection, name: str, worker: str) -> None:
        self.name = check_name("queue", name)
        self.worker = check_name("worker", worker)
        self._connection = connection
        self._keys = Keys(name)

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed; every call then raises StoreUnavailable."""
        return self._connection.is_closed

    def in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs work that must not end with its caller; closing the server waits for it."""
        return self._connection.in_background(work)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} as {self.worker}>"


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
