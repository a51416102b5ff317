"""The clients of one connection, one for each use, so that waiting claims never delay verdicts."""

from __future__ import annotations

from typing import Any

from claimq.address.redis_url import parse_url
from claimq.redis_store.clients.direct_client import DirectClient
from claimq.redis_store.clients.opening import close, is_cluster, make_client
from claimq.redis_store.settings import RedisSettings


class ClientsByUse:
    """Makes each client when it is first used: for ``calls``, ``verdicts``, ``renewals`` and ``waiting``.

    ``shared`` is a client of the caller, which then serves all uses and is never closed here.
    """

    def __init__(self, settings: RedisSettings, shared: Any = None) -> None:
        self.shared = shared
        self._settings = settings
        self._clients: dict[str, Any] = {}

    @property
    def are_for_cluster(self) -> bool:
        """Whether the server is a Redis Cluster, where a command may name keys of one queue only."""
        if self.shared is not None:
            return is_cluster(self.shared)
        return parse_url(self._settings.url).mode == "cluster"

    def of(self, use: str) -> Any:
        """The client for a kind of call."""
        if self.shared is not None:
            return self.shared
        if use not in self._clients:
            self._clients[use] = make_client(self._settings, waiting=use == "waiting")
        return self._clients[use]

    def of_any_call(self) -> Any:
        """A client for calls that do not wait: one that exists, if possible."""
        return self.of(next((use for use in self._clients if use != "waiting"), "calls"))

    async def drop_idle(self, use: str) -> None:
        """Closes pooled connections after an error: the next call resolves the server's address again."""
        client = self._clients.get(use)
        pool = getattr(client, "connection_pool", None)
        if pool is not None:
            try:
                if isinstance(client, DirectClient):
                    await client.forget()
                await pool.disconnect(inuse_connections=False)
            except Exception:  # noqa: BLE001 - a socket that cannot be closed is as good as closed
                return

    async def close(self) -> None:
        """Closes the clients that this object made. Raises what the client library raises."""
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await close(client)
