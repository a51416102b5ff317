"""Requests to a Prometheus: bounded in time and bytes, and only to the server that was named."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import h11

from claimq_cli.errors import USAGE, CommandError
from claimq_cli.web.prometheus.queries import NoCurves
from claimq_spec.http_host import is_loopback

_SECONDS = 2.0
_AT_ONCE = 16
_MOST_BYTES = 256 * 1024
"""Of an answer: ten times as many as curves have."""
_LONGEST_TOKEN = 16 * 1024
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a Prometheus is served. ``authority``: host and port as in the URL; ``path``: the prefix of its API."""

    scheme: str
    host: str
    port: int
    authority: str
    path: str


def parse_url(url: str) -> Address:
    """The address in a URL. CommandError, without the URL, for one that is malformed or has a password."""
    wrong = "--prometheus: not the URL of a server; write http://HOST:9090 or https://HOST/PATH"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")
    except ValueError as error:  # its text may have a password
        raise CommandError(wrong, USAGE) from error
    if "@" in parts.netloc:
        raise CommandError(
            "--prometheus: a URL with a user or a password can be seen by other users of this machine; remove them, "
            "and put a token into --prometheus-token-file",
            USAGE,
        )
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if parts.scheme not in _PORTS or not host or port == 0 or "?" in url or "#" in url or not is_plain:
        raise CommandError(wrong, USAGE)
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], parts.netloc, parts.path.rstrip("/"))


class PrometheusClient:
    """Sends requests, at most 16 at once. Redirects are answers like any other that is not 200."""

    def __init__(self, address: Address, token_file: Path | None = None, ca_file: Path | None = None) -> None:
        """``token_file``: read for each request, so that it can be replaced. ``ca_file``: instead of the authorities of
        the system. CommandError for files that cannot be used, and for a token that would be sent unencrypted over a
        network.
        """
        if address.scheme == "http" and ca_file is not None:
            raise CommandError(
                "--prometheus-ca-file goes with https; change the URL, or omit the file", USAGE
            )
        if address.scheme == "http" and token_file is not None and not is_loopback(address.host):
            raise CommandError("--prometheus: the token would be sent unencrypted; use https", USAGE)
        self._address = address
        self._token_file = token_file
        self._tls = _context(ca_file) if address.scheme == "https" else None
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._headers()

    async def get(self, path: str) -> bytes:
        """The body of an answer with status 200. NoCurves."""
        try:
            async with asyncio.timeout(_SECONDS), self._slots:
                status, body = await self._exchange(self._address.path + path)
        except TimeoutError:
            raise NoCurves(f"Prometheus did not answer within {_SECONDS:g} s") from None
        except h11.ProtocolError:  # its text may have that of the answer
            raise NoCurves("the answer of Prometheus cannot be read") from None
        except (CommandError, OSError, UnicodeError) as error:
            raise NoCurves("Prometheus cannot be reached") from error
        if status != 200:
            raise NoCurves(f"Prometheus answered with status {status}")
        if len(body) > _MOST_BYTES:
            raise NoCurves("the answer of Prometheus is too large")
        return body

    async def _exchange(self, target: str) -> tuple[int, bytes]:
        """The status and the body: longer than allowed if it is too large, and empty with an error."""
        request = h11.Request(method="GET", target=target, headers=self._headers())
        reader, writer = await asyncio.open_connection(self._address.host, self._address.port, ssl=self._tls)
        try:
            connection = h11.Connection(h11.CLIENT)
            writer.write((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
            status, body = 0, bytearray()
            while len(body) <= _MOST_BYTES:
                event = connection.next_event()
                if event is h11.NEED_DATA:
                    connection.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Response):
                    status = event.status_code
                elif isinstance(event, h11.Data):
                    body += event.data
                elif not isinstance(event, h11.InformationalResponse):
                    break
                if status not in (0, 200):
                    return status, b""
            return status, bytes(body)
        finally:
            writer.transport.abort()

    def _headers(self) -> list[tuple[str, str]]:
        """CommandError, without the token, if its file has none."""
        headers = [
            ("Host", self._address.authority),
            ("Accept", "application/json"),
            ("Accept-Encoding", "identity"),
            ("User-Agent", "claimq-web"),
            ("Connection", "close"),
        ]
        if self._token_file is not None:
            headers.append(("Authorization", f"Bearer {_token_in(self._token_file)}"))
        return headers


def _token_in(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(_LONGEST_TOKEN + 1)
    except OSError as error:
        raise CommandError(f"the token cannot be read from {file}: {error.strerror}", USAGE) from error
    token = text.decode("ascii", "replace").strip()
    if not (
        token and token.isascii() and token.isprintable() and " " not in token and len(text) <= _LONGEST_TOKEN
    ):
        raise CommandError(f"{file} has no token: write only the token into it, in one line", USAGE)
    return token


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise CommandError(
            f"--prometheus-ca-file {ca_file}: no certificates can be read from it", USAGE
        ) from error
