"""Clients of the client library for given settings: without retries of their own, every wait bounded."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, cast

from redis.asyncio import (
    BlockingConnectionPool,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio import Connection as TcpConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelManagedConnection, SentinelManagedSSLConnection
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError

from claimq.address.redis_url import Endpoint, parse_url
from claimq.codec import text_of
from claimq.errors import StoreMisused
from claimq.redis_store.clients.cluster_client import ClusterClient
from claimq.redis_store.clients.direct_client import DirectClient
from claimq.redis_store.clients.listening import listening
from claimq.redis_store.clients.parsers import parser_for
from claimq.redis_store.settings import RedisSettings

Words = Sequence[str | bytes | float]
LONGEST_BLOCK = 2.0
"""Longest duration of a blocking command, in seconds. A longer wait consists of several."""


def make_client(settings: RedisSettings, *, waiting: bool) -> Any:
    """A client for calls, or (``waiting``) for commands that block up to :data:`LONGEST_BLOCK`. Sends nothing yet."""
    endpoint = parse_url(settings.url)
    options = call_options(settings, endpoint, longest_wait=LONGEST_BLOCK if waiting else 0.0)
    options |= {"db": endpoint.db, "retry": Retry(NoBackoff(), 0), "health_check_interval": 0}
    options["parser_class"] = parser_for(settings.largest_reply)
    limit = 1000 if waiting else settings.max_connections

    def direct(place: Endpoint) -> DirectClient:
        client = _direct(settings, place, dict(options), limit)
        return DirectClient(client, reply_timeout=settings.reply_timeout, most=limit)

    if endpoint.mode == "cluster":
        if endpoint.tls:
            _tls(settings)  # raises for a file that cannot be read
        return ClusterClient(
            endpoint.addresses, lambda address: direct(replace(endpoint, addresses=(address,)))
        )
    return direct(endpoint)


class Kind(Enum):
    """How a single server is reached."""

    TCP = 1
    TLS = 2
    UNIX = 3


def place_of(settings: RedisSettings, endpoint: Endpoint) -> tuple[Kind, dict[str, Any]]:
    """How a single server is reached, and the arguments of a connection for that."""
    if endpoint.socket_path:
        return Kind.UNIX, {"path": endpoint.socket_path}
    host, port = endpoint.addresses[0]
    place = {"host": host, "port": port, "socket_keepalive": True}
    return (Kind.TLS, place | _tls(settings)) if endpoint.tls else (Kind.TCP, place)


def call_options(settings: RedisSettings, endpoint: Endpoint, *, longest_wait: float = 0.0) -> dict[str, Any]:
    """Arguments of every connection: credentials and timeouts."""
    return {
        "protocol": 2,
        "socket_timeout": settings.reply_timeout + longest_wait,
        "socket_connect_timeout": settings.connect_timeout,
        "username": settings.username or endpoint.username,
        "password": settings.password or endpoint.password,
        "client_name": "claimq",
    }


def _direct(settings: RedisSettings, endpoint: Endpoint, options: dict[str, Any], limit: int) -> Any:
    """The client library's client for one server, found by its address or by Sentinel."""
    if endpoint.mode == "sentinel":
        return _behind_sentinel(settings, endpoint, options, limit)
    kind, where = place_of(settings, endpoint)
    classes = {Kind.TCP: TcpConnection, Kind.TLS: SSLConnection, Kind.UNIX: UnixDomainSocketConnection}
    options |= where | {"connection_class": listening(classes[kind], settings.namespace)}
    pool = BlockingConnectionPool(max_connections=limit, timeout=settings.reply_timeout, **options)
    return Redis.from_pool(pool)  # which closes the pool with the client


def _behind_sentinel(settings: RedisSettings, endpoint: Endpoint, options: dict[str, Any], limit: int) -> Any:
    connection = SentinelManagedSSLConnection if endpoint.tls else SentinelManagedConnection
    options |= {"connection_class": listening(connection, settings.namespace)}
    if endpoint.tls:
        options |= {"ssl": True, **_tls(settings)}
    sentinel_options = {
        "socket_timeout": settings.reply_timeout,
        "socket_connect_timeout": settings.connect_timeout,
        "username": settings.sentinel_username,
        "password": settings.sentinel_password,
        "protocol": 2,
        "retry": Retry(NoBackoff(), 0),
    }
    if endpoint.tls:
        sentinel_options |= {"ssl": True, **_tls(settings)}
    sentinel: Any = Sentinel(list(endpoint.addresses), sentinel_kwargs=sentinel_options)
    for client in sentinel.sentinels:  # whose constructor takes no parser
        client.connection_pool.connection_kwargs["parser_class"] = parser_for(settings.largest_reply)
    return sentinel.master_for(endpoint.service, redis_class=Redis, max_connections=limit, **options)


def _tls(settings: RedisSettings) -> dict[str, Any]:
    files = {
        "ssl_ca_certs": settings.ca_file,
        "ssl_certfile": settings.cert_file,
        "ssl_keyfile": settings.key_file,
    }
    for path in files.values():
        if path is None:
            continue
        try:
            with Path(path).open("rb"):
                pass
        except OSError as error:
            raise StoreMisused(
                f"the TLS file {path} cannot be read ({error.strerror}); mount it or correct the path"
            ) from error
    return {name: path for name, path in files.items() if path}


async def close(client: Any) -> None:
    """Closes all connections of a client of :func:`make_client`."""
    await client.aclose()


def is_cluster(client: Any) -> bool:
    """Whether a client is for a Redis Cluster: ours, or the client library's, of a caller."""
    return isinstance(client, ClusterClient | RedisCluster)


def plain(client: Any, *words: str | bytes | float) -> Awaitable[object]:
    """Runs a command whose reply needs no conversion, on a connection for scripts."""
    command = client.plain if isinstance(client, DirectClient) else client.execute_command
    return cast("Awaitable[object]", command(*words))


async def read(client: Any, absent: str, *words: str | bytes | float) -> Any:
    """Runs a command that only reads, if the server is the primary. ``absent``: a key of the queue that never exists.

    Without this check a read would go on seeing the old data of a primary that became a replica: it answers reads, and
    sentinels may name it for some seconds more. Raises ReadOnlyError or Disconnected then. A Redis Cluster needs no
    check: there a replica does not answer reads.
    """
    if is_cluster(client):
        return await client.execute_command(*words)
    guard = ("PEXPIRE", absent, 0)
    if isinstance(client, DirectClient) and words[0] == "EVALSHA":
        return await client.read(guard, words)
    refused, reply = await together(client, guard, words)
    if isinstance(refused, ReadOnlyError):
        raise refused
    if isinstance(reply, Exception):
        raise reply
    return reply


async def read_each(
    client: Any,
    absent: str,
    keys: Sequence[str],
    commands_of: Callable[[Sequence[int]], Sequence[Words]],
    note: Callable[[object], None],
) -> list[Any]:
    """Runs commands that only read, one for each key, those of a server together, if it is the primary. See
    :func:`read`. ``commands_of``: the commands for the keys with these positions. ``note`` is called with each reply.
    Raises the first error. Not for a caller's client of a Redis Cluster."""
    if isinstance(client, ClusterClient):
        replies = await client.each(keys, commands_of, note)
    else:
        commands = [("PEXPIRE", absent, 0), *commands_of(range(len(keys)))]
        each = (
            client.each(commands, note) if isinstance(client, DirectClient) else together(client, *commands)
        )
        refused, *replies = await each
        if isinstance(refused, ReadOnlyError):
            raise refused
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


async def together(client: Any, *commands: Words) -> list[Any]:
    """Sends commands together on one connection to a single server; returns their replies, errors among them."""
    if isinstance(client, DirectClient):
        return await client.together(*commands)
    pipe = client.pipeline(transaction=False)
    for words in commands:
        pipe.execute_command(*words)
    return list(await pipe.execute(raise_on_error=False))


def decodes_replies(client: Any) -> bool:
    """Whether a client of the caller decodes replies to text, which would break payloads that are not UTF-8."""
    pool = getattr(client, "connection_pool", None)
    options = getattr(pool, "connection_kwargs", None) or getattr(client, "connection_kwargs", None) or {}
    return bool(options.get("decode_responses"))


def is_synchronous(client: Any) -> bool:
    """Whether a client of the caller returns replies instead of awaitables."""
    execute = getattr(client, "execute_command", None)
    return execute is not None and not inspect.iscoroutinefunction(execute)


async def at_node(client: Any, key: str, *words: str) -> Any:
    """Runs a command on the cluster node that serves a key, or on the single server."""
    if isinstance(client, ClusterClient):
        return await client.at(key, *words)
    if not isinstance(client, RedisCluster):
        return await client.execute_command(*words)
    cluster: Any = client
    await cluster.initialize()
    return await cluster.execute_command(*words, target_nodes=cluster.get_node_from_key(key))


def fields_of(reply: Any) -> dict[str, Any]:
    """A reply of names and values, which the client library answers as a dict or as a list."""
    pairs: dict[bytes | str, Any] = (
        reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=False))
    )
    return {text_of(name): pairs[name] for name in pairs}
