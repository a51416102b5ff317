"""``spec.redis``: the server of the queue."""

# ruff: noqa: RUF009 - the functions called for defaults return dataclasses.field()
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from claimq.address.redis_url import split_server_address, split_url, with_topology
from claimq.address.server_parts import OF_ENTRY
from claimq_control.manifest.declaring import boolean, choice, nested, text

_NAME = "^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$"
_NAME_FORM = "the name of a Secret (lower-case letters, digits, '-' and '.')"
_KEY = "^[A-Za-z0-9._-]{1,253}$"
_KEY_FORM = "a key of a Secret (letters, digits, '-', '_' and '.')"
_USER = "^[^ :@/]{1,253}$"
_USER_FORM = "the name of an ACL user (without spaces, ':', '@' and '/')"
_SECRET_HINTS = {"namespace": "omit it: Secrets are read only from the queue's own namespace"}

URL_PATTERN = "^(?:unix|rediss?(?:[+](?:sentinel|cluster))?)://[^ ]+$"
_URL_FORM = (
    "a URL such as redis://host:6379/0, rediss://host:6380/0, unix:///path?db=0, "
    "redis+sentinel://host:26379,host:26379/master/0 or redis+cluster://host:7000,host:7001"
)


def url_fault(url: str) -> str | None:
    """The problem of an address with a known scheme, as a message with the fix. None: the address is valid."""
    try:
        parts = split_url(url)
        hosts = [split_server_address(address)[0] for address in parts.addresses]
    except ValueError:
        if url.startswith("unix:"):
            return "has a host before the path of a socket; write unix:///path/to/socket?db=0"
        return "has an address that is not HOST:PORT; write redis://host:6379/0, and brackets around an IPv6 address"
    if parts.scheme != "unix" and not all(hosts):
        return "has an empty host; write redis://host:6379/0"
    pieces = [piece for piece in parts.path.split("/") if piece]
    if parts.scheme == "unix":
        return None if pieces else "has no path of a socket; write unix:///path/to/socket?db=0"
    if parts.scheme.endswith("+sentinel"):
        if not parts.path.removeprefix("/").partition("/")[0]:
            return f"names no master; write {parts.scheme}://host:26379,host:26379/master/0"
        pieces = pieces[1:]
    if pieces and not (pieces[0].isascii() and pieces[0].isdigit()):
        return "has a database that is not a number; write one like /0"
    return None


def _secret_name() -> Any:
    return text("Name of the Secret.", required=True, pattern=_NAME, form=_NAME_FORM)


def _key(description: str, *, default: str) -> Any:
    return text(description, default=default, pattern=_KEY, form=_KEY_FORM)


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlSecretRef:
    """A key of a Secret that holds a URL."""

    HINTS: ClassVar[dict[str, str]] = _SECRET_HINTS

    name: str = _secret_name()
    key: str = _key("Key of the Secret that holds the URL.", default="url")


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordSecretRef:
    """A key of a Secret that holds a password."""

    HINTS: ClassVar[dict[str, str]] = _SECRET_HINTS

    name: str = _secret_name()
    key: str = _key("Key of the Secret that holds the password.", default="password")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaSecretRef:
    """A key of a Secret that holds certificates of certificate authorities."""

    HINTS: ClassVar[dict[str, str]] = _SECRET_HINTS

    name: str = _secret_name()
    key: str = _key("Key of the Secret that holds the certificates, in PEM.", default="ca.crt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertSecretRef:
    """A Secret that holds a certificate and its private key, as of type kubernetes.io/tls."""

    HINTS: ClassVar[dict[str, str]] = _SECRET_HINTS

    name: str = _secret_name()
    cert_key: str = _key("Key of the Secret that holds the certificate, in PEM.", default="tls.crt")
    private_key_key: str = _key(
        "Key of the Secret that holds the certificate's private key, in PEM.", default="tls.key"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSpec:
    """Certificates for a connection with TLS."""

    HINTS: ClassVar[dict[str, str]] = {
        "enabled": "omit it: a URL that begins with rediss turns TLS on",
        "insecureSkipVerify": "omit it: the server's certificate is always verified; name its authority in "
        "caSecretRef",
    }

    ca_secret_ref: CaSecretRef | None = nested(
        "Certificate authorities that may sign the server's certificate.",
        CaSecretRef,
        optional=True,
        absent="the authorities that the image trusts",
    )
    cert_secret_ref: CertSecretRef | None = nested(
        "The client certificate for the server.",
        CertSecretRef,
        optional=True,
        absent="none",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SentinelSpec:
    """The Sentinels that monitor the master."""

    master_name: str = text(
        "Name of the master in the configuration of the Sentinels.",
        required=True,
        pattern="^[A-Za-z0-9._-]{1,253}$",
        form="the master's name (letters, digits, '-', '_' and '.')",
    )
    user: str | None = text(
        "ACL user for the Sentinels.",
        pattern=_USER,
        form=_USER_FORM,
        absent="the default user",
    )
    password_secret_ref: PasswordSecretRef | None = nested(
        "Secret in the queue's namespace that holds the password of the Sentinels. It is sent only to the hosts that "
        "the key `hosts` of the Secret names.",
        PasswordSecretRef,
        optional=True,
        absent="no password",
    )


class Appendfsync(StrEnum):
    """What an administrator declares of the server's setting ``appendfsync``."""

    UNKNOWN = "Unknown"
    ALWAYS = "Always"
    EVERY_SECOND = "EverySecond"
    NEVER = "Never"


_WORDS = {
    Appendfsync.ALWAYS: "always",
    Appendfsync.EVERY_SECOND: "everysec",
    Appendfsync.NEVER: "no",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSpec:
    """The Redis or Valkey that holds the queue. Give either ``url`` or ``secretRef``."""

    HINTS: ClassVar[dict[str, str]] = {
        "password": "put the password in a Secret and name it in passwordSecretRef",
        "host": "write the address as url: redis://host:6379/0",
        "port": "write the address as url: redis://host:6379/0",
        "db": "write the database in the url: redis://host:6379/0",
        "username": "the field for the ACL user is called user",
    }

    url: str | None = text(
        "Address of the server, without a password: redis://host:6379/0, rediss:// for TLS, unix:///path?db=0, "
        "redis+sentinel://host:26379,host:26379/master/0, redis+cluster://host:7000,host:7001. On a cluster, a host "
        "without a dot is a Service of the queue's namespace.",
        pattern=URL_PATTERN,
        form=_URL_FORM,
        longest=2048,
        absent="give secretRef",
    )
    secret_ref: UrlSecretRef | None = nested(
        "Secret in the queue's namespace that holds the address; it may contain user and password. Changes "
        "take effect without a restart.",
        UrlSecretRef,
        optional=True,
        absent="give url",
    )
    user: str | None = text(
        "ACL user.",
        pattern=_USER,
        form=_USER_FORM,
        absent="the one in the address, or the server's default user",
    )
    password_secret_ref: PasswordSecretRef | None = nested(
        "Secret in the queue's namespace that holds the password. It is sent only to the hosts that its key `hosts` "
        "names, to an address in the same Secret, or where a setting of the operator allows it.",
        PasswordSecretRef,
        optional=True,
        absent="the one in the address, or none",
    )
    sentinel: SentinelSpec | None = nested(
        "Set it if the address is that of Sentinels.",
        SentinelSpec,
        optional=True,
        absent="as in the address",
    )
    cluster: bool = boolean(
        "Set it if the address is that of a Redis Cluster and does not begin with redis+cluster. A queue is stored in "
        "one slot.",
        default=False,
    )
    appendfsync: Appendfsync = choice(
        "The server's setting appendfsync, as an administrator has read it with `claimq doctor`: the queue's user "
        "cannot read it (docs/acl.md). Declare Always only if no-appendfsync-on-rewrite is no. On every server of a "
        "cluster or behind Sentinel it must be the same.",
        Appendfsync.UNKNOWN,
    )
    tls: TlsSpec | None = nested(
        "Certificates for an address that begins with rediss.",
        TlsSpec,
        optional=True,
        absent="the authorities that the image trusts",
    )

    @property
    def declared_appendfsync(self) -> str | None:
        """The declared value as the server writes it: ``always``, ``everysec`` or ``no``; None if it is unknown."""
        return _WORDS.get(self.appendfsync)

    def secret_entries(self) -> list[tuple[str, str, str]]:
        """The entries of Secrets that a connection needs: (Secret, key, name of the file that holds the value)."""
        entries: list[tuple[str, str, str]] = []
        if self.secret_ref is not None:
            entries.append((self.secret_ref.name, self.secret_ref.key, "url"))
        if self.password_secret_ref is not None:
            entries.append((self.password_secret_ref.name, self.password_secret_ref.key, "password"))
        if self.sentinel is not None and self.sentinel.password_secret_ref is not None:
            reference = self.sentinel.password_secret_ref
            entries.append((reference.name, reference.key, "sentinel-password"))
        if self.tls is not None and self.tls.ca_secret_ref is not None:
            entries.append((self.tls.ca_secret_ref.name, self.tls.ca_secret_ref.key, "ca.crt"))
        if self.tls is not None and self.tls.cert_secret_ref is not None:
            certificate = self.tls.cert_secret_ref
            entries.append((certificate.name, certificate.cert_key, "tls.crt"))
            entries.append((certificate.name, certificate.private_key_key, "tls.key"))
        return entries

    def parts(self, entries: Mapping[str, str]) -> dict[str, Any]:
        """The parts of the settings of a connection, see :data:`claimq.address.server_parts.SERVER_PARTS`.

        ``entries``: the values of :meth:`secret_entries` by file; of a certificate, its path. The manifest's URL has
        what Sentinels and cluster add to it; that of a Secret gets it from ``sentinel_master`` and ``cluster``.
        """
        sentinel = self.sentinel
        parts = {
            "url": self.address(),
            "username": self.user,
            "sentinel_master": sentinel.master_name if sentinel and self.secret_ref else None,
            "sentinel_username": sentinel.user if sentinel else None,
            "cluster": self.cluster and self.secret_ref is not None,
        }
        return {name: part for name, part in parts.items() if part} | {
            OF_ENTRY[file]: entry for file, entry in entries.items()
        }

    @property
    def address_field(self) -> str:
        """The field that holds the server's address, for messages."""
        if self.secret_ref is None:
            return "spec.redis.url"
        return f'spec.redis.secretRef (key "{self.secret_ref.key}" of the Secret "{self.secret_ref.name}")'

    def address(self, url: str | None = None) -> str | None:
        """The whole address: ``url`` (or the one from the Secret, given as argument) with what sentinel and
        cluster add. None if there is no URL here and none is given. The user and the password are not added.
        """
        url = url if url is not None else self.url
        master = None if self.sentinel is None else self.sentinel.master_name
        return None if url is None else with_topology(url, master=master, cluster=self.cluster)
