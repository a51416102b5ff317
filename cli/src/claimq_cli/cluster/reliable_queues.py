"""Reads ReliableQueues and their Secrets, with the permissions of the user who runs the command."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import claimq
from claimq.address.redis_url import parse_url
from claimq.errors import InvalidSpec
from claimq_cli.cluster.kubectl import KIND, Kubectl
from claimq_cli.errors import NOT_DONE, REFUSED, CommandError, lines_of
from claimq_spec.manifest import Manifest, RedisSpec, parse_manifest
from claimq_spec.password_hosts import HOSTS_KEY, is_allowed, parse_hosts, password_refs
from claimq_spec.secret_entries import InvalidSecretEntry, read_entry, read_text

Json = dict[str, Any]
_CERTIFICATES = ("ca.crt", "tls.crt", "tls.key")


@dataclass(frozen=True, slots=True)
class ClusterQueue:
    """The queue of a ReliableQueue, and the settings of a connection to its server."""

    name: str
    namespace: str
    queue_name: str
    settings: claimq.RedisSettings


class ReliableQueues:
    """Reads the ReliableQueues of a namespace."""

    def __init__(self, kubectl: Kubectl, directory: Path, *, retry_for: float) -> None:
        """``directory``: for certificates, readable only by this user. ``retry_for``: for the settings."""
        self._kubectl = kubectl
        self._directory = directory
        self._retry_for = retry_for
        self._secrets: dict[str, Json] = {}

    def read(self, name: str) -> ClusterQueue:
        """The ReliableQueue of this name. CommandError if kubectl fails or a password must not be sent; InvalidSpec."""
        return self._queue(self._kubectl.get(f"{KIND}/{name}"))

    def read_all(self) -> tuple[list[ClusterQueue], list[str]]:
        """All ReliableQueues of the namespace that can be used, and a line with the error of each other one.

        CommandError if kubectl fails or there is none.
        """
        bodies: list[Json] = self._kubectl.get(KIND)["items"]
        if not bodies:
            raise CommandError(
                "the namespace has no ReliableQueue; choose another with --namespace", NOT_DONE
            )
        found: list[ClusterQueue] = []
        problems: list[str] = []
        for body in bodies:
            try:
                found.append(self._queue(body))
            except (CommandError, InvalidSpec) as error:
                problems.append(f"{body['metadata']['name']}: {'; '.join(lines_of(error))}")
        return found, problems

    def _queue(self, body: Json) -> ClusterQueue:
        manifest = parse_manifest(body, stored=True)
        redis = cast("RedisSpec", manifest.spec.redis)  # a manifest for a cluster has one
        return ClusterQueue(
            manifest.name, manifest.namespace, manifest.spec.queue_name, self._settings(manifest, redis, body)
        )

    def _settings(self, manifest: Manifest, redis: RedisSpec, body: Json) -> claimq.RedisSettings:
        values = {
            file: self._entry(manifest.namespace, secret, key) for secret, key, file in redis.secret_entries()
        }
        texts = {file: value.decode("utf-8", "replace").strip() for file, value in values.items()}
        try:
            url = redis.address(texts.get("url")) or ""
            endpoint = parse_url(url)
        except ValueError as error:
            raise CommandError(f"{redis.address_field}: {error}", REFUSED) from error
        if endpoint.socket_path:
            raise CommandError(
                "the server is a Unix socket, which only its pods can reach; run claimq in a pod"
            )
        for reference in password_refs(redis):
            hosts = parse_hosts(read_text(self._secret(manifest.namespace, reference.name), HOSTS_KEY))
            is_shown = redis.secret_ref is None  # an address in a Secret can change without a new generation
            if not is_allowed(endpoint, hosts) and not (is_shown and _is_used_by_the_operator(body)):
                raise CommandError(_forbidden(redis, reference.name), REFUSED)
        stored = self._stored(values)
        return claimq.RedisSettings(
            url,
            **redis.credentials(texts),
            ca_file=stored.get("ca.crt"),
            cert_file=stored.get("tls.crt"),
            key_file=stored.get("tls.key"),
            retry_for=self._retry_for,
        )

    def _stored(self, values: Mapping[str, bytes]) -> dict[str, str]:
        """Writes the certificates among the values into files; returns their paths."""
        stored: dict[str, str] = {}
        for file in _CERTIFICATES:
            if file in values:
                path = self._directory / hashlib.sha256(values[file]).hexdigest()
                path.write_bytes(values[file])
                stored[file] = str(path)
        return stored

    def _entry(self, namespace: str, secret: str, key: str) -> bytes:
        try:
            return read_entry(self._secret(namespace, secret), secret, key)
        except InvalidSecretEntry as error:
            raise CommandError(str(error)) from error

    def _secret(self, namespace: str, name: str) -> Json:
        if name not in self._secrets:
            body = self._kubectl.get(f"secret/{name}", f"--namespace={namespace}")
            self._secrets[name] = body.get("data") or {}
        return self._secrets[name]


def _is_used_by_the_operator(body: Json) -> bool:
    """Whether the operator uses the server that the object names now, so that it allowed the password to be sent."""
    generation = body["metadata"].get("generation")
    status = cast("Json", body.get("status") or {})
    conditions: list[Json] = status.get("conditions") or []
    return any(
        (one["type"], one["status"], one.get("observedGeneration")) == ("RedisReachable", "True", generation)
        for one in conditions
    )


def _forbidden(redis: RedisSpec, secret: str) -> str:
    return (
        f'the Secret "{secret}" does not allow its password to be sent to {redis.address_field}; list '
        f'the host in the key "{HOSTS_KEY}" of that Secret, or use --redis URL'
    )
