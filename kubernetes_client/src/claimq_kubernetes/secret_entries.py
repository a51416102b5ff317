"""Reads the entries of Secrets, within bounds. Pure; errors quote no value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from claimq_control.manifest import RedisSpec
from claimq_control.password_hosts import HOSTS_KEY
from claimq_process.size import format_size

LARGEST_TEXT = 16 * 1024
"""Bytes of an entry that is no certificate: an address, a user, a password."""
_NAMESPACE_CHARACTERS = 2 * 1024 * 1024
"""Base64 of the entries that a program keeps of the Secrets of one namespace: its certificates and many texts."""


class InvalidSecretEntry(ValueError):
    """An entry is missing, or is not base64. ``reason`` is that of the condition RedisReachable."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def keys_of_secrets(redis: RedisSpec) -> dict[str, frozenset[str]]:
    """The Secrets that a connection needs, and which of their entries."""
    keys_by_secret: dict[str, frozenset[str]] = {}
    for secret, key, _ in redis.secret_entries():
        keys_by_secret[secret] = keys_by_secret.get(secret, frozenset((HOSTS_KEY,))) | {key}
    return keys_by_secret


def kept_entries(entries: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """The entries with these keys. The rest of a Secret, up to 1 MB, is of no use."""
    return {key: entries[key] for key in keys if key in entries}


def check_room(
    secret: str, namespace: str, entries: Mapping[str, Any], other_secrets: Iterable[Mapping[str, Any]]
) -> None:
    """Raises InvalidSecretEntry if these entries do not fit into the namespace's limit. ``other_secrets``: the entries
    of other Secrets that the program keeps."""
    total = sum(
        len(encoded or "")
        for secret_entries in (entries, *other_secrets)
        for encoded in secret_entries.values()
    )
    if total > _NAMESPACE_CHARACTERS:
        message = (
            f'the entries of the Secret "{secret}" that spec.redis names, and those of other queues in the namespace '
            f"{namespace}, exceed the allowed {format_size(_NAMESPACE_CHARACTERS)} of base64; let queues share "
            "Secrets, or make them smaller"
        )
        raise InvalidSecretEntry("SecretTooLarge", message)


def read_entry(entries: Mapping[str, Any], secret: str, key: str, *, is_text: bool) -> bytes:
    """The value of a key of the Secret with this data. ``is_text``: it has the bound of texts; the one who stores
    certificates has theirs. Raises InvalidSecretEntry.
    """
    if key not in entries:
        message = f'the Secret "{secret}" has no key "{key}"; add it or correct spec.redis'
        raise InvalidSecretEntry("SecretKeyMissing", message)
    try:
        content = base64.b64decode(entries[key] or "", validate=True)
    except binascii.Error as error:
        message = f'the key "{key}" of the Secret "{secret}" is not base64'
        raise InvalidSecretEntry("SecretKeyInvalid", message) from error
    if is_text and len(content) > LARGEST_TEXT:
        message = f'the key "{key}" of the Secret "{secret}" has {len(content):,} bytes; give at most {LARGEST_TEXT:,}'
        raise InvalidSecretEntry("SecretTooLarge", message)
    return content


def read_text(entries: Mapping[str, Any], key: str) -> str:
    """The value of a key as text; empty if it is missing, invalid or larger than :data:`LARGEST_TEXT`."""
    try:
        text = base64.b64decode(entries.get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text if len(text) <= LARGEST_TEXT else ""
