"""URLs of Redis and Valkey servers: the one place that takes them apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

_SCHEMES = ("redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster")
_FORMS = (
    "redis://HOST:PORT/DB, rediss://... for TLS, unix:///path/to/socket?db=0, "
    "redis+sentinel://HOST:PORT,HOST:PORT/SERVICE/DB, redis+cluster://HOST:PORT,HOST:PORT"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A URL taken apart. ``mode`` is ``single``, ``sentinel`` or ``cluster``; ``addresses`` are (host, port)."""

    mode: str
    tls: bool
    addresses: tuple[tuple[str, int], ...]
    socket_path: str | None
    service: str
    db: int
    username: str | None
    password: str | None = field(repr=False)


def parse_url(url: str) -> Endpoint:
    """Takes a URL apart; raises :class:`ValueError` that says what a URL looks like, without repeating the
    secret in it."""
    scheme, found, _ = url.partition("://")
    if not found or scheme not in _SCHEMES:
        # Nothing of it is repeated, here and below: any part may be a password, or the whole another Secret's key.
        begins = "begins with another scheme" if found else "has no '://'"
        raise ValueError(f"the URL of the server {begins}; write one of {_FORMS}")
    kind, _, suffix = scheme.partition("+")
    parts = _split(url, may_have_at=kind == "unix")
    userinfo, _, hosts = parts.netloc.rpartition("@")
    username, _, password = userinfo.partition(":")
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
        addresses=() if socket_path else _addresses(hosts, 26379 if mode == "sentinel" else 6379),
        socket_path=socket_path,
        service=service,
        db=_db(parts, path, mode, is_socket=socket_path is not None),
        username=unquote(username) or None,
        password=unquote(password) or None,
    )


def _split(url: str, *, may_have_at: bool) -> SplitResult:
    """Splits a URL. A password that is not encoded would end up in another part, and from there in a message."""
    try:
        parts = urlsplit(url)
    except ValueError:  # whose text may have the password in it
        parts = None
    behind = "" if parts is None else url.partition("://")[2][len(parts.netloc) :]
    if parts is None or ("@" in behind and not may_have_at):
        raise ValueError(
            "the URL of the server cannot be read; in a user or password percent-encode '/', '?', '#', '[' and ']' "
            "(a '/' is %2F), or give them apart as username and password"
        )
    return parts


def _addresses(hosts: str, default_port: int) -> tuple[tuple[str, int], ...]:
    addresses: list[tuple[str, int]] = []
    for address in hosts.split(","):
        try:
            split = urlsplit(f"//{address}")
            addresses.append((split.hostname or "localhost", split.port or default_port))
        except ValueError:
            # What follows the colon may be a password whose host was forgotten, and the first error repeats it.
            raise ValueError(
                "what follows the host in the URL is no port (1 to 65535); write HOST:PORT, and a user and password "
                "before it: USER:PASSWORD@HOST:PORT"
            ) from None
    return tuple(addresses)


def _db(parts: SplitResult, path: list[str], mode: str, *, is_socket: bool) -> int:
    asked = parse_qs(parts.query).get("db", [])
    text = asked[-1] if asked else "0" if is_socket or not path else path[0]
    if not (text.isascii() and text.isdigit()):
        raise ValueError("the database in the URL is not a number; write one like /0")
    if mode == "cluster" and text != "0":
        raise ValueError("a Redis Cluster has database 0 only; leave the database out of the URL")
    return int(text)
