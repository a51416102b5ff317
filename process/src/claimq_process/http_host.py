"""Names of this machine: the check of the Host header that protects HTTP servers from web pages (DNS rebinding), and
whether an address is loopback."""

from __future__ import annotations

import ipaddress
import re
from typing import Final

_HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(?::[0-9]*)?")


def is_own_host(header: str, listens_on: str) -> bool:
    """Whether a Host header names the server itself: its address, localhost, no host, or any IP address.

    A page of another site reaches this server only under a host name of that site, which resolves to this address.
    """
    name = _HOST.fullmatch(header)
    if name is None:
        return False
    if name[1].lower() in ("localhost", "", listens_on.lower()):
        return True
    try:
        ipaddress.ip_address(name[1].strip("[]"))
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether this host of a URL or an address to listen on is on this machine: localhost, 127.0.0.0/8 or ::1."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
