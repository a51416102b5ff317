"""The address of the page, and the socket that listens there."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from claimq.address.redis_url import split_address
from claimq_admin.errors import USAGE, CommandError
from claimq_process.http_host import is_loopback


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page listens."""

    host: str
    port: int


def parse_address(text: str, *, allow_remote: bool = False) -> Address:
    """The address in HOST:PORT. CommandError for a malformed one, and for one that other machines can reach unless
    ``allow_remote`` is set.
    """
    try:
        host, port = split_address(text)
    except ValueError:
        host, port = "", None
    if not host or port is None:
        raise CommandError(
            f"the web page cannot listen on {text!r}: not an address; write HOST:PORT, such as 127.0.0.1:7380",
            USAGE,
        )
    address = Address(host, port)
    if not is_loopback(host) and not allow_remote:
        raise CommandError(
            f"the web page has no login, and other machines can reach {host}; listen on 127.0.0.1, or run "
            "`claimq web` with --users, or with --without-login, which shows all payloads to everyone who can reach it",
            USAGE,
        )
    return address


def opened(text: str | None, *, default: str, allow_remote: bool = False) -> tuple[socket.socket, str]:
    """A socket that listens, and its host. Without an address: the default one, or a free port beside it.

    CommandError if it cannot listen there.
    """
    address = parse_address(text or default, allow_remote=allow_remote)
    ports = [address.port] if text else [address.port, 0]
    problem = ""
    for port in ports:
        try:
            family = socket.getaddrinfo(address.host, port, type=socket.SOCK_STREAM)[0][0]
            listener = socket.create_server((address.host, port), family=family, backlog=128)
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            listener.setblocking(False)
            return listener, address.host
    raise CommandError(f"cannot listen on {text or default}: {problem}; choose another address")


def url_of(listening: socket.socket) -> str:
    """The URL of a page that is served on this socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def instead_of(text: str | None, *, default: str, listening: socket.socket) -> str:
    """A note to print after the URL if the default port was in use; else empty."""
    is_default = listening.getsockname()[1] == parse_address(default).port
    return "" if text or is_default else f" ({default} is in use)"
