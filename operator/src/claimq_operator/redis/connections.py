"""Connections to the servers of all queues: one for each address and set of secrets, shared by its queues.

Secrets are read by name, with nothing but `get`, at most once a minute each, and at once after a fault: a rotation is
picked up without a restart and without watching what is none of the operator's business.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from claimq.errors import ClaimqError
from claimq.model import ServerReport
from claimq.redis_store.settings import RedisSettings
from claimq.redis_url import Endpoint, parse_url
from claimq.server import Server, connect
from claimq_operator.children.redis_secrets import place, projections
from claimq_operator.fault import Fault
from claimq_operator.grants import NO_GRANTS, Allowed
from claimq_operator.kubernetes_api.port import (
    SECRETS,
    Cluster,
    ClusterUnavailable,
    Json,
    NotThere,
    Refused,
    part,
)
from claimq_operator.kubernetes_api.queue_resource import Key
from claimq_operator.redis.certificates import Certificates, Rejected
from claimq_operator.redis.password_hosts import (
    HOSTS_KEY,
    entries_of,
    forbidden,
    is_allowed,
    password_refs,
)
from claimq_spec.manifest import RedisSpec

SECRET_SECONDS = 60.0
"""How long a Secret that was read is taken for what it still is."""
REPORT_SECONDS = 60.0
_CONNECTIONS = 64


class NoAccess(Exception):
    """The server cannot be asked, since how to reach it is not known; ``fault`` says what to do."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(slots=True)
class SharedServer:
    """One server, the queues that use it, and what was last found out about it."""

    server: Server
    users: set[Key] = field(default_factory=set[Key])
    report: ServerReport | None = None
    reported_at: float = float("-inf")

    async def look(self, now: float) -> ServerReport | None:
        """What kind of server it is; asked once a minute. Raises StoreUnavailable, StoreMisused."""
        if now - self.reported_at >= REPORT_SECONDS:
            self.reported_at = now
            try:
                self.report = await self.server.report()
            except ClaimqError:
                self.reported_at = float("-inf")
                raise
        return self.report


class RedisConnections:
    """The servers in use."""

    def __init__(self, cluster: Cluster, directory: Path, hosts: Allowed = NO_GRANTS) -> None:
        """``directory``: where certificates are put for the TLS library, readable by this process alone. ``hosts``:
        where passwords may be sent beside the hosts that their Secrets name."""
        self._cluster = cluster
        self._hosts = hosts
        self._certificates = Certificates(directory)
        self._secrets: dict[Key, tuple[float, Json]] = {}
        self._servers: dict[RedisSettings, SharedServer] = {}
        self._used: dict[Key, RedisSettings] = {}
        self._named: dict[Key, set[Key]] = {}

    async def server_for(self, key: Key, redis: RedisSpec) -> SharedServer:
        """The server of a queue, by what its Secrets hold now. Raises NoAccess."""
        self._named[key] = {(key[0], secret) for secret, _, _ in projections(redis)}
        settings = await self._settings(key, redis)
        former = self._used.get(key)
        if former != settings:
            # Without a pause after the files were written: whatever no server uses is removed by others too.
            self._used[key] = settings
            if settings not in self._servers:
                self._servers[settings] = SharedServer(connect(settings=settings))
            self._servers[settings].users.add(key)
            await self._leave(key, former)
        return self._servers[settings]

    def asks_by_tls(self, key: Key) -> bool:
        """Whether the queue's server is asked by TLS."""
        settings = self._used.get(key)
        return settings is not None and parse_url(settings.url).tls

    def distrust(self, key: Key, redis: RedisSpec) -> None:
        """After a fault: the queue's Secrets are read anew, since they may have been rotated."""
        for secret, _, _ in projections(redis):
            self._secrets.pop((key[0], secret), None)

    async def release(self, key: Key) -> None:
        """The queue uses its server no more; the last one closes it."""
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
        """Removes certificates that were rotated away, or whose queues are gone: the place for them is small."""
        self._certificates.sweep({file for one in self._servers for file in _files(one)})

    def _stored(self, key: Key, files: Mapping[str, bytes]) -> dict[str, str]:
        """The queue's certificates as files. Raises NoAccess."""
        used = [settings for other, settings in self._used.items() if other[0] == key[0] and other != key]
        try:
            return self._certificates.paths(
                files, {file for one in used for file in _files(one) if file is not None}, key[0]
            )
        except Rejected as error:
            self._sweep()
            raise NoAccess(error.fault) from error

    async def close(self) -> None:
        """Closes all."""
        servers, self._servers, self._used = list(self._servers.values()), {}, {}
        await asyncio.gather(*(_close(shared) for shared in servers))

    async def _settings(self, key: Key, redis: RedisSpec) -> RedisSettings:
        namespace = key[0]
        files: dict[str, bytes] = {}
        for secret, name, file in projections(redis):
            files[file] = _entry(await self._secret(namespace, secret), secret, name)
        texts = {file: value.decode("utf-8", "replace").strip() for file, value in files.items()}
        try:
            if "url" in texts:
                parse_url(texts["url"])  # its errors repeat nothing of a Secret
            url = redis.address(texts.get("url"))
            endpoint = parse_url(url or "")
            await self._check_hosts(namespace, redis, endpoint)
            stored = self._stored(key, files)  # from here on without a pause, or others would remove them
            return RedisSettings(
                url or "",
                username=redis.user,
                password=texts.get("password"),
                sentinel_username=None if redis.sentinel is None else redis.sentinel.user,
                sentinel_password=texts.get("sentinel-password"),
                ca_file=stored.get("ca.crt"),
                cert_file=stored.get("tls.crt"),
                key_file=stored.get("tls.key"),
                connect_timeout=3.0,
                reply_timeout=3.0,
                retry_for=1.5,
                max_connections=_CONNECTIONS,
            )
        except ValueError as error:
            said = f"{place(redis)}: {error}"
            raise NoAccess(Fault("AddressInvalid", said, needs_person=True)) from error

    async def _check_hosts(self, namespace: str, redis: RedisSpec, endpoint: Endpoint) -> None:
        """Raises NoAccess for a password that may not be sent to these addresses."""
        for reference in password_refs(redis):
            named = _text(await self._secret(namespace, reference.name), HOSTS_KEY)
            if not is_allowed(endpoint, (*entries_of(named), *self._hosts.patterns(namespace))):
                raise NoAccess(forbidden(redis, reference.name, namespace))

    async def _secret(self, namespace: str, name: str) -> Json:
        now = asyncio.get_running_loop().time()
        known = self._secrets.get((namespace, name))
        if known is not None and now - known[0] < SECRET_SECONDS:
            return known[1]
        try:
            data = part(await self._cluster.get(SECRETS, namespace, name), "data")
        except NotThere as error:
            said = (
                f'there is no Secret "{name}" in the namespace {namespace}; create it or correct spec.redis'
            )
            raise NoAccess(Fault("SecretMissing", said, needs_person=True)) from error
        except Refused as error:
            said = f'the operator may not read the Secret "{name}"; grant it get on secrets in {namespace}'
            raise NoAccess(Fault("SecretForbidden", said, needs_person=True)) from error
        except ClusterUnavailable as error:
            if known is not None:
                return known[1]
            raise NoAccess(Fault("SecretUnreadable", f"the Secret cannot be read now: {error}")) from error
        self._secrets[namespace, name] = (now, data)
        return data


def _entry(data: Json, secret: str, key: str) -> bytes:
    if key not in data:
        said = f'the Secret "{secret}" has no key "{key}"; add it or correct spec.redis'
        raise NoAccess(Fault("SecretKeyMissing", said, needs_person=True))
    try:
        return base64.b64decode(data[key] or "", validate=True)
    except binascii.Error as error:
        said = f'the key "{key}" of the Secret "{secret}" is not base64'
        raise NoAccess(Fault("SecretKeyInvalid", said, needs_person=True)) from error


def _text(data: Json, key: str) -> str:
    """A text of a Secret; empty where there is none, or none that can be read."""
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _files(settings: RedisSettings) -> tuple[str | None, ...]:
    return settings.ca_file, settings.cert_file, settings.key_file


async def _close(shared: SharedServer) -> None:
    try:
        async with asyncio.timeout(5.0):
            await shared.server.close()
    except (ClaimqError, TimeoutError):
        return  # a server that does not even take a good-bye is as closed as it needs to be
