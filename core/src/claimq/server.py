"""Connecting to a server, and the queues, operations and reports of the whole server."""

from __future__ import annotations

import os
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from claimq.arguments import of_type, several
from claimq.codec import name_part, text_of
from claimq.errors import NotReplicated, StoreMisused
from claimq.internals.fsync_setting import fsync_warnings
from claimq.internals.several_queues import used_names
from claimq.internals.trial import server_name
from claimq.model import Enqueued, ServerReport, ServerWarning
from claimq.queue import index
from claimq.queue.batches import batch_of, check_one_step
from claimq.queue.producing import run_enqueue
from claimq.redis_store.bounded_read import BoundedRead
from claimq.redis_store.clients.opening import decodes_replies, fields_of, is_synchronous
from claimq.redis_store.connection import Connection
from claimq.redis_store.default_server import check_queue_of_local_mode, found_settings, url_in
from claimq.redis_store.faults import NEEDS_CLUSTER
from claimq.redis_store.keys import Keys
from claimq.redis_store.settings import RedisSettings
from claimq.reliable_queue import ReliableQueue
from claimq.tracing import Sending

_PROBE = "cq:{report}:main"
_WORD = re.compile("[a-z0-9.-]{1,40}")
"""Values of INFO that may be shown. No Redis returns a longer text, and foreign text is not repeated."""
_OLDEST = {"redis": (7, 0), "valkey": (7, 2)}


def connect(url: str | None = None, *, settings: RedisSettings | None = None, client: Any = None) -> Server:
    """A server by URL, by settings, or over your own ``redis.asyncio`` client. Nothing is sent before the first call.

    Without any of them: the server of ``$CLAIMQ_REDIS_URL`` (with the other ``CLAIMQ_REDIS_*`` variables of the
    sidecar), else that of the ``claimq up`` that is running in this directory or above it, or as this user on this
    machine. Raises :class:`NoServer` if there is none, or more than one. A ``claimq up`` has only the queues of its
    manifest.

    claimq does not close your client. It must return bytes (``decode_responses=False``), make no retries of its own,
    and have a socket timeout of at least 3 seconds. Raises :class:`ValueError` for a malformed URL.
    """
    if sum(argument is not None for argument in (url, settings, client)) > 1:
        raise ValueError("give one of a URL, settings or a client")
    if is_synchronous(client):
        raise TypeError(
            f"client is a synchronous {type(client).__module__}.{type(client).__name__}; give one of redis.asyncio, or "
            "use claimq.blocking.connect with a URL or settings"
        )
    if decodes_replies(client):
        raise ValueError(
            "client decodes replies, and payloads are bytes; create it with decode_responses=False"
        )
    if settings is not None:
        of_type("settings", settings, RedisSettings, "a RedisSettings, or a URL as the first argument")
    elif url is not None:
        settings = RedisSettings(url)
    elif client is None:
        settings = found_settings()
        return Server(Connection(settings), is_of_local_mode=not url_in(os.environ))
    return Server(Connection(settings or RedisSettings(), client=client))


class Server:
    """Connections to one Redis or Valkey server (standalone, behind Sentinel, or a Cluster). An async context
    manager."""

    def __init__(self, connection: Connection, *, is_of_local_mode: bool = False) -> None:
        self._connection = connection
        self._is_of_local_mode = is_of_local_mode
        self._is_config_hidden = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connection(self) -> Connection:
        """What its calls are made on."""
        return self._connection

    async def close(self) -> None:
        """Recovers the items of cancelled claims, then closes the connections that this object made."""
        await self._connection.close()

    def queue(self, name: str, *, worker: str | None = None) -> ReliableQueue:
        """The queue of that name. ``worker`` is the name under which it claims; the default is host, process id and a
        random part. Makes no call.

        Two live processes must not share a worker's name: :meth:`ReliableQueue.release_worker` gives back all claims of
        the name. After a fork, make new queues in the child. Raises NoServer if the server is that of a running
        ``claimq up`` whose manifest does not have the queue.
        """
        self._check_queue(name)
        return ReliableQueue(self._connection, name, worker or default_worker())

    async def enqueue(self, items: Mapping[str, Iterable[object]]) -> dict[str, Enqueued]:
        """Adds items to several queues in one atomic step, all or none: at most 1,000 items or 2 MiB to 100 queues, so
        that the step does not block the server for long.

        Raises CrossSlot if the queues do not share a server slot, ValueError for too many items, and as
        :meth:`queue` and :meth:`ReliableQueue.enqueue`.
        """
        of_type("items", items, Mapping, "a mapping from queues to their items")
        if not items:
            return {}
        payloads_by_queue = {name: several("items", payloads) for name, payloads in items.items()}
        for name in payloads_by_queue:
            self._check_queue(name)
        queue = next(iter(payloads_by_queue)) if len(payloads_by_queue) == 1 else None
        with Sending(queue, sum(map(len, payloads_by_queue.values()))) as span:
            batches = {
                name: batch_of(span.carrying(payloads)) for name, payloads in payloads_by_queue.items()
            }
            check_one_step(batches.items())
            by_keys = {Keys(name): batch for name, batch in batches.items()}
            done, missing = await run_enqueue(self._connection, by_keys)
        if missing:
            raise NotReplicated(missing, done)
        return done

    def _check_queue(self, name: str) -> None:
        if self._is_of_local_mode:
            check_queue_of_local_mode(self._connection.settings.url, name)

    async def ping(self, *, verdicts: bool = False) -> None:
        """One round trip on a connection for calls, or one each for verdicts and renewals. The connections stay open.

        Raises StoreUnavailable or StoreMisused.
        """
        for use in ("verdicts", "renewals") if verdicts else ("calls",):
            await self._connection.ping(use=use)

    async def queues(self, *, only_existing: bool = True) -> list[str]:
        """The names of the queues in the server's index, sorted.

        Each connection adds a name with its first enqueue or claim, if its user may write ``cq:queues``. Deleted queues
        are removed. O(queues), in a round trip for 1,000 of them.

        With ``only_existing=False`` they are returned as the index has them.
        """
        names = await index.known_names(self._connection)
        if not only_existing:
            return names
        existing = await used_names(self._connection, names)
        if len(existing) < len(names):
            await index.remove_names(self._connection, sorted({*names} - {*existing}))
        return existing

    async def report(self) -> ServerReport:
        """The server's kind and version, and a warning for each setting that weakens the guarantees, with the value to
        set. Changes nothing."""
        with BoundedRead("report", self._connection.settings.read_bounds):
            return await self._report()

    async def _report(self) -> ServerReport:
        raw = await self._connection.ask(_PROBE, "INFO")
        info = {key: text for key, value in raw.items() if _WORD.fullmatch(text := str(value))}
        flavour, version = await server_name(self._connection, _PROBE) or _name_in(info)
        warnings = [
            *_version_warnings(flavour, version),
            *_durability_warnings(info),
            *_memory_warnings(info),
        ]
        mode = info.get("redis_mode", info.get("server_mode", "standalone"))
        if mode == "cluster" and not self._connection.clients.are_for_cluster:
            warnings.append(ServerWarning("ClusterNotDeclared", NEEDS_CLUSTER))
        fsync, pauses = await self._fsync_setting()
        return ServerReport(
            flavour,
            version,
            mode,
            (*warnings, *fsync_warnings(fsync, pauses=pauses)),
            fsync,
        )

    async def _fsync_setting(self) -> tuple[str | None, bool]:
        """appendfsync (None: unknown), and whether no-appendfsync-on-rewrite is yes.

        A user without the right to CONFIG GET is refused once: each refusal is an entry in the server's ACL LOG.
        """
        if self._is_config_hidden:
            return None, False
        try:
            fsync = await self._setting("appendfsync")
            pauses = await self._setting("no-appendfsync-on-rewrite") == "yes"
        except StoreMisused:
            self._is_config_hidden = True
            return None, False
        return fsync, pauses

    async def _setting(self, name: str) -> str | None:
        setting = fields_of(await self._connection.ask(_PROBE, "CONFIG GET", name)).get(name)
        return text_of(setting) if isinstance(setting, bytes | str) else None


_SNAPSHOT_FAILS = ServerWarning(
    "SnapshotFailing",
    "the last snapshot (RDB) failed, and with save points the server refuses writes then; free its disk, or see its "
    "log",
)


def _name_in(info: Mapping[str, str]) -> tuple[str, str]:
    """Name and version of a server that does not answer HELLO, from its INFO."""
    for flavour in reversed(_OLDEST):
        if version := info.get(f"{flavour}_version"):
            return flavour, version
    return "unknown", "unknown"


def _version_warnings(flavour: str, version: str) -> list[ServerWarning]:
    oldest = _OLDEST.get(flavour)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if oldest is None or not numbers:
        text = f"the server calls itself {flavour} {version}; claimq is tested with Redis and Valkey (docs/servers.md)"
        return [ServerWarning("OtherServer", text)]
    if numbers >= oldest:
        return []
    return [
        ServerWarning(
            "ServerTooOld", f"{flavour} {version} is too old; use {flavour} {oldest[0]}.{oldest[1]} or later"
        )
    ]


def _durability_warnings(info: Mapping[str, str]) -> list[ServerWarning]:
    warnings: list[ServerWarning] = []
    eviction = info.get("maxmemory_policy", "noeviction")
    if eviction != "noeviction":
        warnings.append(
            ServerWarning(
                "EvictionPolicy",
                f"maxmemory-policy is {eviction}: items can be evicted; set it to noeviction",
            )
        )
    if info.get("aof_enabled", "0") != "1":
        warnings.append(
            ServerWarning(
                "NoAppendOnly",
                "appendonly is off: a restart can lose items; set appendonly yes, appendfsync always",
            )
        )
    elif info.get("aof_last_write_status", "ok") != "ok":
        warnings.append(
            ServerWarning("AppendOnlyFailing", "the last write to the append-only file failed; free its disk")
        )
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        warnings.append(_SNAPSHOT_FAILS)
    if info.get("role", "master") != "master":
        warnings.append(
            ServerWarning(
                "IsReplica",
                "this server is a replica and refuses writes; give the primary's address, or Sentinel's",
            )
        )
    elif info.get("connected_slaves", "0") != "0":
        warnings.append(
            ServerWarning(
                "AsynchronousReplication",
                "replication is asynchronous: a failover can lose what was acknowledged last",
            )
        )
    return warnings


def _memory_warnings(info: Mapping[str, str]) -> list[ServerWarning]:
    used, most = _whole(info, "used_memory"), _whole(info, "maxmemory")
    if not 0 < most <= used or info.get("maxmemory_policy") != "noeviction":
        return []  # a server that evicts is never full, and eviction has its own warning
    text = (
        f"the server is at its maxmemory of {most} bytes and takes no new items; let workers drain the queue, remove "
        "failed items (spec.failedItems, or `claimq failed remove`), or give it more memory"
    )
    return [ServerWarning("Full", text)]


def _whole(info: Mapping[str, str], field: str) -> int:
    """A number of INFO; 0 if it is missing or no number."""
    text = info.get(field, "0")
    return int(text) if text.isdecimal() else 0


def default_worker() -> str:
    """A name for a worker that no other process uses."""
    return f"{name_part(socket.gethostname())}-{os.getpid()}-{secrets.token_hex(4)}"
