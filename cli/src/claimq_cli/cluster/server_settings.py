"""The settings of a connection to the server of a ReliableQueue, from the object and its Secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import claimq
from claimq.address.redis_url import parse_url
from claimq_cli.errors import REFUSED, CommandError
from claimq_spec.manifest import Manifest, RedisSpec
from claimq_spec.password_hosts import HOSTS_KEY, is_allowed, parse_hosts, password_refs
from claimq_spec.quantity import format_size
from claimq_spec.secret_entries import InvalidSecretEntry, read_entry, read_text

Json = dict[str, Any]
_CERTIFICATES = {"ca.crt": 256 * 1024, "tls.crt": 64 * 1024, "tls.key": 64 * 1024}
"""The maximum size of each file in bytes, as the operator has it."""


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """The queue of a ReliableQueue, and the settings of a connection to its server."""

    name: str
    namespace: str
    queue_name: str
    settings: claimq.RedisSettings


def secrets_of(manifest: Manifest) -> list[str]:
    """The names of the Secrets that a connection needs."""
    return list(dict.fromkeys(secret for secret, _, _ in _redis_of(manifest).secret_entries()))


def queue_of(
    manifest: Manifest, body: Json, secrets: Mapping[str, Json], directory: Path, *, retry_for: float
) -> ClusterQueue:
    """The queue of the ReliableQueue ``body``. ``secrets``: the data of :func:`secrets_of`, by name.

    Writes the certificates into ``directory``, which only this user may be able to read. CommandError if a Secret lacks
    a key, has a certificate that cannot be stored, or does not allow its password to be sent to the server that the
    object names.
    """
    redis = _redis_of(manifest)
    values = {file: _entry(secrets[secret], secret, key) for secret, key, file in redis.secret_entries()}
    texts = {file: value.decode("utf-8", "replace").strip() for file, value in values.items()}
    url = _checked_url(redis, texts.get("url"), body, secrets)
    stored = _stored(values, directory)
    settings = claimq.RedisSettings(
        url,
        **redis.credentials(texts),
        ca_file=stored.get("ca.crt"),
        cert_file=stored.get("tls.crt"),
        key_file=stored.get("tls.key"),
        retry_for=retry_for,
    )
    return ClusterQueue(manifest.name, manifest.namespace, manifest.spec.queue_name, settings)


def is_used_by_the_operator(body: Json) -> bool:
    """Whether the operator uses the queue and the server that the object names now, so that it has allowed both."""
    generation = body["metadata"].get("generation")
    status = cast("Json", body.get("status") or {})
    conditions: list[Json] = status.get("conditions") or []
    return any(
        (one["type"], one["status"], one.get("observedGeneration")) == ("RedisReachable", "True", generation)
        for one in conditions
    )


def _redis_of(manifest: Manifest) -> RedisSpec:
    return cast("RedisSpec", manifest.spec.redis)  # a manifest for a cluster has one


def _checked_url(redis: RedisSpec, url: str | None, body: Json, secrets: Mapping[str, Json]) -> str:
    """The URL of the server, if the passwords may be sent there."""
    try:
        address = redis.address(url) or ""
        endpoint = parse_url(address)
    except ValueError as error:
        raise CommandError(f"{redis.address_field}: {error}", REFUSED) from error
    if endpoint.socket_path:
        raise CommandError("the server is a Unix socket, which only its pods can reach; run claimq in a pod")
    for reference in password_refs(redis):
        hosts = parse_hosts(read_text(secrets[reference.name], HOSTS_KEY))
        is_shown = redis.secret_ref is None  # an address in a Secret can change without a new generation
        if not is_allowed(endpoint, hosts) and not (is_shown and is_used_by_the_operator(body)):
            raise CommandError(_forbidden(redis, reference.name), REFUSED)
    return address


def _stored(values: Mapping[str, bytes], directory: Path) -> dict[str, str]:
    """Writes the certificates among the values into files; returns their paths."""
    stored: dict[str, str] = {}
    for file, most in _CERTIFICATES.items():
        if file not in values:
            continue
        if len(values[file]) > most:
            raise CommandError(
                f"the {file} in spec.redis.tls has more than the allowed {format_size(most)}", REFUSED
            )
        path = directory / hashlib.sha256(values[file]).hexdigest()
        if not path.exists():
            _store(path, values[file])
        stored[file] = str(path)
    return stored


def _store(path: Path, content: bytes) -> None:
    partial = path.with_suffix(".partial")  # a partly written file must never have the final name
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CommandError(f"a certificate in spec.redis.tls cannot be stored: {error.strerror}") from error


def remove_unused(directory: Path, used: Iterable[claimq.RedisSettings]) -> None:
    """Deletes the certificates in ``directory`` that none of these settings has."""
    files = {file for one in used for file in (one.ca_file, one.cert_file, one.key_file)}
    for path in directory.iterdir():
        if str(path) not in files:
            path.unlink(missing_ok=True)


def _entry(data: Json, secret: str, key: str) -> bytes:
    try:
        return read_entry(data, secret, key)
    except InvalidSecretEntry as error:
        raise CommandError(str(error)) from error


def _forbidden(redis: RedisSpec, secret: str) -> str:
    return (
        f'the Secret "{secret}" does not allow its password to be sent to {redis.address_field}; list '
        f'the host in the key "{HOSTS_KEY}" of that Secret, or use --redis URL'
    )
