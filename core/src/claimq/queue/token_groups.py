"""Tokens of a call, grouped by worker: one script call reads each worker's claims together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from claimq.model import Claim
from claimq.tokens import common_worker, make_token, worker_of

BATCH = 1000
"""Items or claims that one script call may handle, so that none blocks the server for long."""
MOVES = 100
"""Items that one script call moves to another state at most (CALL_MOVES in ``lua/lib/limits.lua``)."""

_EXAMPLE = make_token("worker-1", 1795232291850000, "q3Zt-9aB")

Claims = Claim | str | Iterable[Claim | str]
T = TypeVar("T")


def listed(claims: Claim | str | Iterable[Claim | str | T]) -> list[Claim | str | T]:
    """The claims of a call, one or several. Raises TypeError for anything else."""
    if isinstance(claims, Claim | str):
        return [claims]
    # `list` first: the check of an abstract class is slow.
    if not isinstance(claims, list | Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - a caller without types
        raise _not_a_claim(claims)
    return list(claims)


@dataclass(slots=True)
class TokenGroups:
    """Tokens of one call, grouped by worker as the scripts read them. A token that comes twice is sent once."""

    tokens: list[str]
    ids: dict[str, str]
    sent: list[str]
    words: list[str | int]

    @classmethod
    def of(cls, claims: Claims) -> TokenGroups:
        """Groups claims and tokens in the order in which they were given. Raises ValueError for text that is not a
        token, TypeError for anything else."""
        every = listed(claims)
        ids = {claim.token: claim.item.id for claim in every if isinstance(claim, Claim)}
        tokens = [claim.token if isinstance(claim, Claim) else claim for claim in every]
        sent: list[str] = []
        by_worker = _by_worker(tokens)
        words: list[str | int] = [len(by_worker)]
        for worker, worker_tokens in by_worker.items():
            unique = list(dict.fromkeys(worker_tokens))
            words += [worker, len(unique), *unique]
            sent += unique
        return cls(tokens, ids, sent, words)

    def later(self, verdicts: Sequence[str]) -> TokenGroups:
        """The tokens that the call left for the next one, because it had reached its limit of bytes or items."""
        if "later" not in verdicts:
            return TokenGroups([], {}, [], [0])
        return TokenGroups.of(
            [token for token, verdict in zip(self.sent, verdicts, strict=True) if verdict == "later"]
        )

    @classmethod
    def batches(cls, claims: Claims) -> Iterable[TokenGroups]:
        """The groups for calls of at most :data:`BATCH` claims. Raises as :meth:`of`, before the first."""
        every = listed(claims)
        return [cls.of(every[start : start + BATCH]) for start in range(0, len(every), BATCH)]


def _by_worker(tokens: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The tokens by their worker. Raises as :meth:`TokenGroups.of`."""
    with suppress(TypeError):  # not text: the loop raises the error that names it
        if (worker := common_worker(tokens)) is not None:
            return {worker: tokens}
    by_worker: dict[str, list[str]] = {}
    for token in tokens:
        by_worker.setdefault(_worker_of(token), []).append(token)
    return by_worker


def _worker_of(token: object) -> str:
    if not isinstance(token, str):
        raise _not_a_claim(token)
    worker = worker_of(token)
    if worker is None:
        raise ValueError(
            f"{token[:60]!r} is not the token of a claim; a token looks like {_EXAMPLE} "
            "(the token attribute of a Claim)"
        )
    return worker


def _not_a_claim(argument: object) -> TypeError:
    return TypeError(f"give a Claim or its token, not {type(argument).__name__}")
