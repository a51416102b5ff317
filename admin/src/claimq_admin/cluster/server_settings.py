"""The settings of a connection to the server of a ReliableQueue, from the object and its Secrets."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import claimq
from claimq.address.redis_url import parse_url, with_namespace
from claimq.redis_store.settings import settings_of
from claimq_admin.errors import REFUSED, CommandError
from claimq_control.grants import NO_GRANTS, Grants
from claimq_control.manifest import Manifest, RedisSpec
from claimq_control.password_hosts import HOSTS_KEY, is_allowed, parse_hosts, password_refs
from claimq_kubernetes.port import Json, part, parts
from claimq_kubernetes.secret_entries import InvalidSecretEntry, keys_of_secrets, read_entry, read_text
from claimq_process.certificates import MAX_BYTES, CertificateRejected, Certificates


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """The queue of a ReliableQueue, and the settings of a connection to its server."""

    name: str
    namespace: str
    uid: str
    """Of the object."""
    queue_name: str
    settings: claimq.RedisSettings


def secrets_of(manifest: Manifest) -> dict[str, frozenset[str]]:
    """The names of the Secrets that a connection needs, with their keys."""
    return keys_of_secrets(_redis_of(manifest))


def queue_of(
    manifest: Manifest,
    body: Json,
    secrets: Mapping[str, Json],
    certificates: Certificates,
    *,
    other_paths: Collection[str] = (),
    hosts: Grants = NO_GRANTS,
    retry_for: float,
) -> ClusterQueue:
    """The queue of the ReliableQueue ``body``. ``secrets``: the data of :func:`secrets_of`, by name.

    Stores its certificates; ``other_paths``: those that other queues of the namespace use. ``hosts``: where passwords
    may be sent, in addition to the hosts that their Secrets list. CommandError if a Secret lacks a key, has a
    certificate that cannot be stored, or does not allow its password to be sent to the server that the object names.
    The object's status allows nothing: every user with the right to write it could.
    """
    redis = _redis_of(manifest)
    values = {
        file: _entry(secrets[secret], secret, key, file) for secret, key, file in redis.secret_entries()
    }
    texts = {file: content.decode("utf-8", "replace").strip() for file, content in values.items()}
    _check_url(redis, texts.get("url"), secrets, hosts.patterns(manifest.namespace), manifest.namespace)
    try:
        stored = certificates.paths(values, other_paths, manifest.namespace)
    except CertificateRejected as error:
        raise CommandError(str(error), REFUSED) from error
    parts = redis.parts({**texts, **stored})
    settings = settings_of(parts, retry_for=retry_for, namespace=manifest.namespace)
    uid = str(body["metadata"].get("uid") or "")
    return ClusterQueue(manifest.name, manifest.namespace, uid, manifest.spec.queue_name, settings)


def is_used_by_the_operator(body: Json) -> bool:
    """Whether the status says that the operator uses the queue and the server that the object names now. It says so too
    where another user has written it."""
    condition, generation = reachable(body), body["metadata"].get("generation")
    return (condition.get("status"), condition.get("observedGeneration")) == ("True", generation)


def reachable(body: Json) -> Json:
    """The condition RedisReachable of the object; empty if it has none."""
    conditions = parts(part(body, "status"), "conditions")
    return next((condition for condition in conditions if condition.get("type") == "RedisReachable"), Json())


def _redis_of(manifest: Manifest) -> RedisSpec:
    return cast("RedisSpec", manifest.spec.redis)  # a manifest for a cluster has one


def _check_url(
    redis: RedisSpec, url: str | None, secrets: Mapping[str, Json], granted: Sequence[str], namespace: str
) -> None:
    """Raises CommandError if the URL is malformed, or the passwords must not be sent there."""
    try:
        endpoint = parse_url(with_namespace(redis.address(url) or "", namespace))
    except ValueError as error:
        raise CommandError(f"{redis.address_field}: {error}", REFUSED) from error
    if endpoint.socket_path:
        raise CommandError("the server is a Unix socket, which only its pods can reach; run claimq in a pod")
    for reference in password_refs(redis):
        hosts = parse_hosts(read_text(secrets[reference.name], HOSTS_KEY))
        if not is_allowed(endpoint, (*hosts, *granted), namespace):
            raise CommandError(_forbidden(redis, reference.name), REFUSED)


def _entry(entries: Json, secret: str, key: str, file: str) -> bytes:
    try:
        return read_entry(entries, secret, key, is_text=file not in MAX_BYTES)
    except InvalidSecretEntry as error:
        raise CommandError(str(error)) from error


def _forbidden(redis: RedisSpec, secret: str) -> str:
    return (
        f'the Secret "{secret}" does not allow its password to be sent to {redis.address_field}; list '
        f'the host in the key "{HOSTS_KEY}" of that Secret, set CLAIMQ_PASSWORD_HOSTS as for the operator, or use '
        "--redis URL"
    )
