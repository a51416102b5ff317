"""Which hosts a password may be sent to, by the list that its Secret contains. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from claimq.address.redis_url import Endpoint, in_namespace
from claimq_control.manifest import PasswordSecretRef, RedisSpec
from claimq_control.wildcards import matches

HOSTS_KEY = "hosts"
"""The key of a Secret that lists the hosts of its password, separated by commas or whitespace."""
MOST_HOSTS = 64
"""Entries of one Secret. Further ones are ignored."""
LONGEST_HOST = 280
"""Characters of an entry: a DNS name, a port and ``rediss://``. Longer ones are ignored."""
MOST_ADDRESSES = 64
"""Of one URL. No entry allows an address with more."""
_TLS = "rediss://"


def password_refs(redis: RedisSpec) -> tuple[PasswordSecretRef, ...]:
    """The passwords that are not in the same Secret as the address."""
    sentinel = None if redis.sentinel is None else redis.sentinel.password_secret_ref
    address = None if redis.secret_ref is None else redis.secret_ref.name
    return tuple(
        reference
        for reference in (redis.password_secret_ref, sentinel)
        if reference is not None and reference.name != address
    )


def parse_hosts(text: str) -> tuple[str, ...]:
    """Parses the key ``hosts`` of a Secret. A host has no ``?``, so there an entry with one stands for nothing."""
    entries = text.replace(",", " ").split()
    return tuple(entry for entry in entries if len(entry) <= LONGEST_HOST and "?" not in entry)[:MOST_HOSTS]


def is_allowed(endpoint: Endpoint, entries: Iterable[str], namespace: str) -> bool:
    """Whether an entry matches each address: ``HOST`` or ``HOST:PORT`` with ``*`` as a wildcard; ``rediss://`` in front
    requires TLS. A Unix socket has no host, so no entry matches it. ``namespace``: of the queue; short names in the
    entries are Services there, as those of the endpoint must be already (``with_namespace``)."""
    full_entries = tuple(_full(entry, namespace) for entry in entries)
    return 0 < len(endpoint.addresses) <= MOST_ADDRESSES and all(
        any(_covers(entry, host, port, tls=endpoint.tls) for entry in full_entries)
        for host, port in endpoint.addresses
    )


def _full(entry: str, namespace: str) -> str:
    tls = _TLS if entry.startswith(_TLS) else ""
    return tls + in_namespace(entry.removeprefix(_TLS), namespace)


def _covers(entry: str, host: str, port: int, *, tls: bool) -> bool:
    if entry.startswith(_TLS) and not tls:
        return False
    pattern = entry.removeprefix(_TLS).lower()
    text = f"[{host}]" if ":" in host else host
    return matches(text.lower(), pattern) or matches(f"{text.lower()}:{port}", pattern)
