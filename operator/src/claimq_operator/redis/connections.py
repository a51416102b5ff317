"""Connections to the servers of all queues; queues with the same address and credentials share one.

Secrets are read by name with `get`, at most once a minute each, and again after a fault. This follows rotations without
a restart and without permission to list or watch Secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from claimq.address.redis_url import Endpoint, parse_url, with_namespace
from claimq.errors import ClaimqError
from claimq.internals.idle_queues import IdleQueues
from claimq.internals.operations import internals
from claimq.internals.work_watch import WorkWatch
from claimq.redis_store.bounded_read import ReadBounds
from claimq.redis_store.settings import RedisSettings, settings_of
from claimq.reliable_queue import ReliableQueue
from claimq.server import Server, connect
from claimq_control.fault import Fault
from claimq_control.grants import NO_GRANTS, Grants
from claimq_control.large_reads import LargeReads
from claimq_control.manifest import RedisSpec
from claimq_control.passes.server_reports import REPORT_SECONDS, ServerReports
from claimq_control.passes.worker_platform import ServerAccessError
from claimq_control.password_hosts import HOSTS_KEY, is_allowed, parse_hosts, password_refs
from claimq_kubernetes.port import SECRETS, Cluster, ClusterUnavailable, Json, NotFound, Refused, part
from claimq_kubernetes.queue_resource import Key
from claimq_kubernetes.secret_entries import (
    InvalidSecretEntry,
    check_room,
    kept_entries,
    keys_of_secrets,
    read_entry,
    read_text,
)
from claimq_operator.redis.password_hosts import forbidden
from claimq_process.certificates import MAX_BYTES, CertificateRejected, Certificates

SMALL_READ = ReadBounds(rows=20_000, size=256 * 1024, seconds=20.0)
"""Of the maintenance of one queue that waits for no other: some 700 workers need less."""
SMALL_REPLY = 128 * 1024
"""Bytes. The operator reads no items."""
_LARGE_READ = ReadBounds(rows=200_000, size=16 * 1024 * 1024, seconds=20.0)
"""10,000 workers with 10 claims each need less."""
_LARGE_REPLY = 1024 * 1024
"""Bytes. A page of 1,000 workers or 5,000 tokens is smaller."""
SECRET_SECONDS = 60.0
"""How long a Secret is cached."""
API_SECONDS = 15.0
"""How long an API server that is down is not asked again for a Secret that is known. Each request takes as long."""
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class _Secret:
    """The entries with these keys of a Secret, and when they were read."""

    keys: frozenset[str]
    data: Json
    read_at: float


@dataclass(slots=True)
class SharedServer:
    """One server, its watches for work and of idle queues, its reports, and the queues that use it."""

    server: Server
    work: WorkWatch
    idle: IdleQueues
    reports: ServerReports
    users: set[Key] = field(default_factory=set[Key])
    tried_at: float = float("-inf")

    async def try_scripts(self, queue: ReliableQueue, now: float) -> None:
        """Tries once a minute whether the server can run claimq's scripts. Raises ScriptsRefused with its name and
        version, and what any script raises."""
        if now - self.tried_at >= REPORT_SECONDS:
            await internals(queue).try_scripts()
            self.tried_at = now

    async def name_refusal(self, queue: ReliableQueue) -> None:
        """Raises the error that names the server, after a script was refused. Another server may answer by now."""
        self.tried_at = float("-inf")
        await internals(queue).try_scripts()


class RedisConnections:
    """The servers in use by queue."""

    def __init__(
        self, cluster: Cluster, directory: Path, hosts: Grants = NO_GRANTS, idle_period: float = 10.0
    ) -> None:
        """``directory``: for certificates, readable only by this process. ``hosts``: where passwords may be sent, in
        addition to the hosts that their Secrets list. ``idle_period``: between two looks at idle queues."""
        self._idle_period = idle_period
        self._cluster = cluster
        self._hosts = hosts
        self._certificates = Certificates(directory)
        self._secrets: dict[Key, _Secret] = {}
        self._not_read_before = float("-inf")
        """Until when Secrets that are known are not read again, since the API server was down."""
        self._servers: dict[RedisSettings, SharedServer] = {}
        self._used: dict[Key, RedisSettings] = {}
        self._named: dict[Key, set[Key]] = {}
        self.large_reads = LargeReads(SMALL_READ, _LARGE_READ, _LARGE_REPLY)

    async def server_for(self, key: Key, redis: RedisSpec) -> SharedServer:
        """The server of a queue, with the current values of its Secrets. Raises ServerAccessError."""
        self._named[key] = {(key[0], secret) for secret, _, _ in redis.secret_entries()}
        settings = await self._settings(key, redis)
        former = self._used.get(key)
        if former != settings:
            # No await since the files were written: other queues delete files that no server uses.
            self._used[key] = settings
            if settings not in self._servers:
                server = connect(settings=settings)
                self._servers[settings] = SharedServer(
                    server,
                    WorkWatch(server.connection),
                    IdleQueues(server.connection, self._idle_period),
                    ServerReports(server),
                )
            self._servers[settings].users.add(key)
            await self._leave(key, former)
        return self._servers[settings]

    def uses_tls(self, key: Key) -> bool:
        """Whether connections to the queue's server use TLS."""
        settings = self._used.get(key)
        return settings is not None and parse_url(settings.url).tls

    def are_hosts_allowed(self, key: Key) -> bool:
        """Whether CLAIMQ_PASSWORD_HOSTS allows the hosts of the queue's server for its namespace."""
        settings = self._used.get(key)
        if settings is None:
            return False
        endpoint = parse_url(with_namespace(settings.url, key[0]))
        return is_allowed(endpoint, self._hosts.patterns(key[0]), key[0])

    def is_in_namespace(self, key: Key) -> bool:
        """Whether the queue's server consists of Services and pods of the queue's namespace. False if it is unknown."""
        settings = self._used.get(key)
        if settings is None:
            return False
        hosts = [host for host, _ in parse_url(with_namespace(settings.url, key[0])).addresses]
        return bool(hosts) and all(f".{key[0]}.svc." in f".{host}." for host in hosts)

    def expire_secrets(self, key: Key, redis: RedisSpec) -> None:
        """Call it after a fault: the queue's Secrets are read again, since they may have been rotated.

        While the API server is down, the values from before are used.
        """
        for secret, _, _ in redis.secret_entries():
            if (entries := self._secrets.get((key[0], secret))) is not None:
                self._secrets[key[0], secret] = replace(entries, read_at=float("-inf"))

    async def release(self, key: Key) -> None:
        """The queue no longer uses its server. A server without queues is closed."""
        self._named.pop(key, None)
        named = {secret for secrets in self._named.values() for secret in secrets}
        for secret in [secret for secret in self._secrets if secret not in named]:
            del self._secrets[secret]
        await self._leave(key, self._used.pop(key, None))

    async def _leave(self, key: Key, settings: RedisSettings | None) -> None:
        shared = self._servers.get(settings) if settings is not None else None
        if settings is None or shared is None:
            return
        shared.users.discard(key)
        if not shared.users:
            del self._servers[settings]
            self._sweep()
            await _close(shared)

    def _sweep(self) -> None:
        """Deletes certificates that no server uses any more."""
        self._certificates.sweep({file for server in self._servers for file in server.files})

    def _stored(self, key: Key, files: Mapping[str, bytes]) -> dict[str, str]:
        """Stores the queue's certificates as files. Raises ServerAccessError."""
        used = [settings for other, settings in self._used.items() if other[0] == key[0] and other != key]
        other_files, former = {file for server in used for file in server.files}, self._used.get(key)
        try:
            return self._certificates.paths(files, other_files, key[0], former.files if former else ())
        except CertificateRejected as error:
            self._sweep()
            raise ServerAccessError(Fault(error.reason, str(error), needs_action=True)) from error

    async def close(self) -> None:
        """Closes all connections."""
        servers, self._servers, self._used = list(self._servers.values()), {}, {}
        await asyncio.gather(*(_close(shared) for shared in servers))

    async def _settings(self, key: Key, redis: RedisSpec) -> RedisSettings:
        namespace, keys = key[0], keys_of_secrets(redis)
        secrets = {secret: await self._secret(namespace, secret, keys[secret]) for secret in keys}
        files = {
            file: _entry(secrets[secret], secret, name, file) for secret, name, file in redis.secret_entries()
        }
        texts = {file: content.decode("utf-8", "replace").strip() for file, content in files.items()}
        try:
            if "url" in texts:
                parse_url(texts["url"])  # its errors quote no value of a Secret
            url = redis.address(texts.get("url"))
            endpoint = parse_url(with_namespace(url or "", namespace))
            self._check_hosts(namespace, redis, endpoint, secrets)
            stored = self._stored(
                key, files
            )  # no await from here on: other queues delete files that no server uses
            return settings_of(
                redis.parts({**texts, **stored}),
                connect_timeout=3.0,
                reply_timeout=3.0,
                retry_for=1.5,
                max_connections=_CONNECTIONS,
                largest_reply=SMALL_REPLY,
                namespace=namespace,
                read_bounds=SMALL_READ,
            )
        except ValueError as error:
            message = f"{redis.address_field}: {error}"
            raise ServerAccessError(Fault("AddressInvalid", message, needs_action=True)) from error

    def _check_hosts(
        self, namespace: str, redis: RedisSpec, endpoint: Endpoint, secrets: Mapping[str, Json]
    ) -> None:
        """Raises ServerAccessError if a password must not be sent to these addresses."""
        for reference in password_refs(redis):
            named = read_text(secrets[reference.name], HOSTS_KEY)
            if not is_allowed(endpoint, (*parse_hosts(named), *self._hosts.patterns(namespace)), namespace):
                raise ServerAccessError(forbidden(redis, reference.name, namespace))

    async def _secret(self, namespace: str, name: str, keys: frozenset[str]) -> Json:
        """The entries with these keys. Raises ServerAccessError."""
        now = asyncio.get_running_loop().time()
        cached = self._secrets.get((namespace, name))
        is_current = cached is not None and (
            now - cached.read_at < SECRET_SECONDS or now < self._not_read_before
        )
        if cached is not None and is_current and keys <= cached.keys:
            return cached.data
        try:
            entries = part(await self._cluster.get(SECRETS, namespace, name), "data")
        except NotFound as error:
            self._secrets.pop((namespace, name), None)
            message = (
                f'there is no Secret "{name}" in the namespace {namespace}; create it or correct spec.redis'
            )
            raise ServerAccessError(Fault("SecretMissing", message, needs_action=True)) from error
        except Refused as error:
            self._secrets.pop((namespace, name), None)
            message = f'the operator may not read the Secret "{name}"; grant it get on secrets in {namespace}'
            raise ServerAccessError(Fault("SecretForbidden", message, needs_action=True)) from error
        except ClusterUnavailable as error:
            self._not_read_before = asyncio.get_running_loop().time() + API_SECONDS
            if cached is not None and keys <= cached.keys:
                return cached.data
            raise ServerAccessError(
                Fault("SecretUnreadable", f"the Secret cannot be read: {error}")
            ) from error
        return self._keep(namespace, name, keys, entries, now)

    def _keep(self, namespace: str, name: str, keys: frozenset[str], entries: Json, now: float) -> Json:
        """The entries with these keys and those of other queues, and only them: tenants choose the size of the rest."""
        cached = self._secrets.pop((namespace, name), None)
        keys |= cached.keys if cached is not None else frozenset()
        kept_data = kept_entries(entries, keys)
        other_data = (other_secret.data for key, other_secret in self._secrets.items() if key[0] == namespace)
        try:
            check_room(name, namespace, kept_data, other_data)
        except InvalidSecretEntry as error:
            raise ServerAccessError(Fault(error.reason, str(error), needs_action=True)) from error
        self._secrets[namespace, name] = _Secret(keys, kept_data, now)
        return kept_data


def _entry(entries: Json, secret: str, key: str, file: str) -> bytes:
    try:
        return read_entry(entries, secret, key, is_text=file not in MAX_BYTES)
    except InvalidSecretEntry as error:
        raise ServerAccessError(Fault(error.reason, str(error), needs_action=True)) from error


async def _close(shared: SharedServer) -> None:
    try:
        async with asyncio.timeout(5.0):
            await shared.idle.close()
            await shared.work.close()
            await shared.server.close()
    except (ClaimqError, TimeoutError):
        return  # the server does not respond; its connections will time out
