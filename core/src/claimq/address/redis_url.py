"""Parses the URLs of Redis and Valkey servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit, urlunsplit

_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_FORMS = (
    "redis://HOST:PORT/DB, rediss://... for TLS, unix:///path/to/socket?db=0, "
    "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB, redis+cluster://HOST:PORT,HOST:PORT"
)
ONE_DOT = (
    "a host name with one dot leads to different servers in different namespaces; write SERVICE.NAMESPACE.svc or "
    "POD.SERVICE.NAMESPACE.svc, and a dot at the end of the name of a host outside the cluster"
)


class UrlParts(NamedTuple):
    """The parts of a URL as they are written. Only the scheme is in lower case."""

    scheme: str
    netloc: str
    path: str
    query: str

    @property
    def userinfo(self) -> str:
        """USER:PASSWORD, or one of them, or empty."""
        return self.netloc.rpartition("@")[0]

    @property
    def addresses(self) -> list[str]:
        """Each HOST:PORT; see :func:`split_server_address`."""
        return self.netloc.rpartition("@")[2].split(",")

    def __str__(self) -> str:
        return urlunsplit((*self, ""))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A parsed URL. ``mode`` is ``single``, ``sentinel`` or ``cluster``; ``addresses`` are (host, port)."""

    mode: str
    tls: bool
    addresses: tuple[tuple[str, int], ...]
    socket_path: str | None
    service: str
    db: int
    username: str | None
    password: str | None = field(repr=False)


def split_url(url: str) -> UrlParts:
    """Splits a URL of any scheme. Raises ValueError, whose message may contain a password.

    Refuses a password that is not percent-encoded: it would be in another part, and in messages.
    """
    parts = UrlParts(*urlsplit(url)[:4])
    if parts.scheme == "unix":
        # A socket has no host, and its path may have an '@'.
        is_misplaced = bool(parts.netloc.rpartition("@")[2])
    else:
        is_misplaced = "@" in url.partition("://")[2][len(parts.netloc) :]
    if is_misplaced:
        raise ValueError("a part of the user and password is in another part of the URL")
    return parts


def with_topology(url: str, *, master: str | None, cluster: bool) -> str:
    """The address of a server behind Sentinels that watch ``master``, or of a Redis Cluster: ``redis://a:26379,b:26379/0``
    with the master ``main`` is ``redis+sentinel://a:26379,b:26379/main/0``. A URL that says so itself stays as it is.
    """
    if master is None and not cluster:
        return url
    parts = split_url(url)
    if "+" in parts.scheme or parts.scheme == "unix":
        return url
    if master is not None:
        path = f"/{master}/{parts.path.strip('/') or '0'}"
        return str(parts._replace(scheme=f"{parts.scheme}+sentinel", path=path))
    return str(parts._replace(scheme=f"{parts.scheme}+cluster", path=""))


def in_namespace(address: str, namespace: str) -> str:
    """HOST or HOST:PORT as it is meant in a Kubernetes namespace: a name without a dot is a Service there.

    Every reader, also a pod of another namespace, reaches the same server. Other names, addresses and
    ``localhost`` stay as they are, and so does every name without a namespace (""). ``?`` may stand for a character.
    """
    host, colon, port = address.partition(":")
    is_name = (
        host.replace("-", "").replace("_", "").replace("?", "").isalnum()
        and not host.isdigit()
        and ":" not in port
    )
    if not namespace or not is_name or host.lower() == "localhost":
        return address
    return f"{host}.{namespace}.svc{colon}{port}"


def has_one_dot(address: str) -> bool:
    """Whether HOST or HOST:PORT is a name such as ``a.b``: in each pod first the pod ``a`` of the Service ``b`` in the
    pod's own namespace, then the Service ``a`` of the namespace ``b``, then a host outside the cluster."""
    first, dot, second = address.partition(":")[0].partition(".")
    return bool(first and dot and second) and "." not in second and not second.isdigit()


def with_namespace(url: str, namespace: str) -> str:
    """The URL with each of its hosts as :func:`in_namespace`. Raises ValueError as :func:`split_url`, and for a host
    that :func:`has_one_dot`, whose meaning depends on the reader's namespace."""
    parts = split_url(url)
    if namespace and parts.scheme != "unix" and any(map(has_one_dot, parts.addresses)):
        raise ValueError(ONE_DOT)
    addresses = ",".join(in_namespace(address, namespace) for address in parts.addresses)
    if parts.scheme == "unix" or addresses == ",".join(parts.addresses):
        return url
    user, at, _ = parts.netloc.rpartition("@")
    return str(parts._replace(netloc=f"{user}{at}{addresses}"))


def split_address(address: str) -> tuple[str, int | None]:
    """Host ("" for none) and port of HOST:PORT; an IPv6 address is in brackets. Raises ValueError, whose message may
    contain a part of the address."""
    split = urlsplit(f"//{address}")
    return split.hostname or "", split.port


def split_server_address(address: str) -> tuple[str, int | None]:
    """The same for the address of a server, whose port cannot be 0."""
    host, port = split_address(address)
    if port == 0:
        raise ValueError("a server has no port 0")
    return host, port


def parse_url(url: str) -> Endpoint:
    """Parses a URL. Raises :class:`ValueError` that says what a URL looks like and repeats no part of this one."""
    scheme, rest_of_url, _ = url.partition("://")
    if rest_of_url and scheme in ("valkey", "valkeys"):
        raise ValueError(
            f"the URL of the server begins with {scheme}://; Valkey is written as Redis: redis://HOST:PORT/DB, "
            "rediss://... for TLS"
        )
    if not rest_of_url or scheme not in _SCHEMES:
        # Here and below no part is repeated: it may be a password.
        begins = "begins with another scheme" if rest_of_url else "has no '://'"
        raise ValueError(f"the URL of the server {begins}; write one of {_FORMS}")
    kind, _, suffix = scheme.partition("+")
    parts = _split(url)
    username, _, password = parts.userinfo.partition(":")
    path = [piece for piece in unquote(parts.path).split("/") if piece]
    service, mode = "", suffix or "single"
    if mode == "sentinel":
        if not path:
            raise ValueError(
                "a redis+sentinel:// URL names the service that the sentinels watch: redis+sentinel://HOST:PORT/SERVICE/DB"
            )
        service = path.pop(0)
    socket_path = unquote(parts.path) if kind == "unix" else None
    if kind == "unix" and not socket_path:
        raise ValueError("a unix:// URL has the path of the server's socket: unix:///path/to/socket?db=0")
    return Endpoint(
        mode=mode,
        tls=kind == "rediss",
        addresses=() if socket_path else _addresses(parts.addresses, 26379 if mode == "sentinel" else 6379),
        socket_path=socket_path,
        service=service,
        db=_db(parts, path, mode, is_socket=socket_path is not None),
        username=unquote(username) or None,
        password=unquote(password) or None,
    )


def _split(url: str) -> UrlParts:
    """Splits a URL. The error repeats no part of it and has no other error as its context."""
    try:
        parts = split_url(url)
    except ValueError:  # its message may contain the password
        parts = None
    if parts is None:
        raise ValueError(
            "the URL of the server cannot be read; in a user or password percent-encode '/', '?', '#', '[' and ']' "
            "(a '/' is %2F), or give them separately as username and password; the path of a socket has three slashes: "
            "unix:///path/to/socket"
        )
    return parts


def _addresses(addresses: list[str], default_port: int) -> tuple[tuple[str, int], ...]:
    try:
        split = map(split_server_address, addresses)
        return tuple((host or "localhost", default_port if port is None else port) for host, port in split)
    except ValueError:
        # The text after the colon may be a password without its host, and the first error repeats it.
        raise ValueError(
            "the port in the URL is not a number from 1 to 65535; write HOST:PORT, and a user and password "
            "before it: USER:PASSWORD@HOST:PORT"
        ) from None


def _db(parts: UrlParts, path: list[str], mode: str, *, is_socket: bool) -> int:
    parameters = parse_qs(parts.query, keep_blank_values=True)
    if parameters.keys() - {"db"}:  # other clients read a password there, and options of TLS
        raise ValueError(
            "the URL has a parameter other than ?db=NUMBER; write a user and password before the host "
            "(USER:PASSWORD@HOST:PORT), and give everything else as settings"
        )
    databases = parameters.get("db", [])
    text = databases[-1] if databases else "0" if is_socket or not path else path[0]
    if not (text.isascii() and text.isdigit()):
        raise ValueError("the database in the URL is not a number; write one like /0")
    if mode == "cluster" and text != "0":
        raise ValueError("a Redis Cluster has database 0 only; leave the database out of the URL")
    return int(text)
