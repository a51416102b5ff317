"""Reads the entries of a Secret. Pure; errors quote no value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any


class InvalidSecretEntry(ValueError):
    """An entry is missing, or is not base64. ``reason`` is that of the condition RedisReachable."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_entry(data: Mapping[str, Any], secret: str, key: str) -> bytes:
    """The value of a key of the Secret with this data. Raises InvalidSecretEntry."""
    if key not in data:
        message = f'the Secret "{secret}" has no key "{key}"; add it or correct spec.redis'
        raise InvalidSecretEntry("SecretKeyMissing", message)
    try:
        return base64.b64decode(data[key] or "", validate=True)
    except binascii.Error as error:
        message = f'the key "{key}" of the Secret "{secret}" is not base64'
        raise InvalidSecretEntry("SecretKeyInvalid", message) from error


def read_text(data: Mapping[str, Any], key: str) -> str:
    """The value of a key as text; empty if it is missing or invalid."""
    try:
        return base64.b64decode(data.get(key) or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
