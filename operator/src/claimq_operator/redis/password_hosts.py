"""Which hosts a password may be sent to: those that its own Secret names, or an operator setting. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from claimq.redis_url import Endpoint
from claimq_operator.fault import Fault
from claimq_operator.grants import matches
from claimq_spec.manifest import PasswordSecretRef, RedisSpec

HOSTS_KEY = "hosts"
"""The key of a Secret with a password that names its hosts, separated by commas, blanks or line ends."""
REASON = "PasswordHostForbidden"
_TLS = "rediss://"


def password_refs(redis: RedisSpec) -> tuple[PasswordSecretRef, ...]:
    """The passwords that do not come together with an address: from another Secret than it, if it is in one."""
    sentinel = None if redis.sentinel is None else redis.sentinel.password_secret_ref
    address = None if redis.secret_ref is None else redis.secret_ref.name
    return tuple(
        one for one in (redis.password_secret_ref, sentinel) if one is not None and one.name != address
    )


def entries_of(text: str) -> tuple[str, ...]:
    """What the key ``hosts`` of a Secret holds."""
    return tuple(text.replace(",", " ").split())


def is_allowed(endpoint: Endpoint, entries: Iterable[str]) -> bool:
    """Whether every address is in an entry: ``HOST`` or ``HOST:PORT``, with ``*`` for any characters, and with
    ``rediss://`` before it only by TLS. A Unix socket is a host of nobody's, so it is in none."""
    known = tuple(entries)
    return bool(endpoint.addresses) and all(
        any(_covers(entry, host, port, tls=endpoint.tls) for entry in known)
        for host, port in endpoint.addresses
    )


def _covers(entry: str, host: str, port: int, *, tls: bool) -> bool:
    if entry.startswith(_TLS) and not tls:
        return False
    pattern = entry.removeprefix(_TLS).lower()
    shown = f"[{host}]" if ":" in host else host
    return matches(shown.lower(), pattern) or matches(f"{shown.lower()}:{port}", pattern)


def forbidden(redis: RedisSpec, secret: str, namespace: str) -> Fault:
    """The fault of an address that the password of this Secret may not be sent to; it repeats nothing of a Secret."""
    field = "spec.redis.url" if redis.secret_ref is None else "the address of spec.redis.secretRef"
    said = (
        f'the Secret "{secret}" does not allow its password to be sent to {field}, so no connection is made; name the '
        f'host in the key "{HOSTS_KEY}" of that Secret, put address and password into one Secret, or add '
        f'"{namespace}=HOST" to operator.passwordHosts of the operator\'s chart'
    )
    return Fault(REASON, said, needs_person=True)
