"""Connects to a server of another queue system, which may have no queues of claimq."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import claimq
from claimq.redis_store.clients import make_client
from claimq.redis_store.faults import translate


class OtherServer:
    """A connection; ``name`` is for errors. An async context manager."""

    def __init__(self, settings: claimq.RedisSettings, name: str) -> None:
        self._client: Any = make_client(settings, waiting=False)
        self._name = name

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def call(self, *words: str | bytes | float) -> Any:
        """Runs a command once. Raises errors of the library."""
        try:
            return await self._client.execute_command(*words)
        except Exception as error:
            raise translate(error, doing=self._name) from error

    async def script(self, text: str, keys: Sequence[str | bytes], *words: str | bytes | float) -> Any:
        """Runs a script once."""
        return await self.call("EVAL", text, len(keys), *keys, *words)
